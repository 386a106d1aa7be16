package diff

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	sigsyaml "sigs.k8s.io/yaml"
)

func parse(t testing.TB, text string) any {
	t.Helper()
	data, err := sigsyaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// listed returns fields as PATH KIND BEFORE -> AFTER.
func listed(fields []Field) string {
	var lines []string
	for _, f := range fields {
		before, _ := json.Marshal(f.Before)
		after, _ := json.Marshal(f.After)
		lines = append(lines, strings.Join([]string{f.Path.String(), string(f.Kind), string(before), "->", string(after)}, " "))
	}
	return strings.Join(lines, "\n")
}

func TestFields(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nspec:\n  "
	for _, tc := range []struct{ name, before, after, want string }{
		{"equal", "a: [1, {b: c}]", "a: [1, {b: c}]", ""},
		{"scalars", "a: 1\nb: {c: x, d: null}", "a: 2\nb: {c: w, e: null}", "a changed 1 -> 2\nb.c changed \"x\" -> \"w\"\nb.d removed null -> null\nb.e added null -> null"},
		{"keys that need quotes", "m: {a.b/c: x}", "m: {a.b/c: w}", `m["a.b/c"] changed "x" -> "w"`},
		{"another type", "a: {b: c}", "a: [b]", `a changed {"b":"c"} -> ["b"]`},
		{"a list of scalars", "a: [x, w]", "a: [x, z, w]", `a changed ["x","w"] -> ["x","z","w"]`},
		{"containers", pod + "containers: [{name: a, image: x}, {name: b}]", pod + "containers: [{name: a, image: w}, {name: c}]", "spec.containers[name=a].image changed \"x\" -> \"w\"\nspec.containers[name=b] removed {\"name\":\"b\"} -> null\nspec.containers[name=c] added null -> {\"name\":\"c\"}"},
		{"inserted before", pod + "initContainers: [{name: b}]", pod + "initContainers: [{name: a}, {name: b}]", "spec.initContainers[name=a] added null -> {\"name\":\"a\"}\nspec.initContainers reordered [\"b\",\"a\"] -> [\"a\",\"b\"]"},
		{"ports", pod + "containers: [{name: a, ports: [{containerPort: 80, name: x}]}]", pod + "containers: [{name: a, ports: [{containerPort: 80, name: w}]}]", `spec.containers[name=a].ports[containerPort=80].name changed "x" -> "w"`},
		{"a port twice", pod + "containers: [{name: a, ports: [{containerPort: 53, protocol: TCP}, {containerPort: 53, protocol: UDP}]}]", pod + "containers: [{name: a, ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53, protocol: UDP}]}]", `spec.containers[name=a].ports[0].protocol changed "TCP" -> "UDP"`},
		{"mounts", pod + "containers: [{name: a, volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: /b}]}]", pod + "containers: [{name: a, volumeMounts: [{name: v, mountPath: /b}]}]", `spec.containers[name=a].volumeMounts[mountPath=/a] removed {"mountPath":"/a","name":"v"} -> null`},
		{"tolerations have no key", pod + "tolerations: [{key: a}, {key: b}]", pod + "tolerations: [{key: b}]", "spec.tolerations[0].key changed \"a\" -> \"b\"\nspec.tolerations[1] removed {\"key\":\"b\"} -> null"},
		{"names in other kinds", "kind: X\nl: [{name: a, v: 1}, {name: b}]", "kind: X\nl: [{name: b}, {name: a, v: 2}]", "l[name=a].v changed 1 -> 2\nl reordered [\"a\",\"b\"] -> [\"b\",\"a\"]"},
		{"names that are not unique", "l: [{name: a}, {name: a}]", "l: [{name: a}]", "l[1] removed {\"name\":\"a\"} -> null"},
		{"labels are no lists", "apiVersion: v1\nkind: ConfigMap\ndata: {a: \"1\"}", "apiVersion: v1\nkind: ConfigMap\ndata: {b: \"1\"}", "data.a removed \"1\" -> null\ndata.b added null -> \"1\""},
		{"apiVersion", "apiVersion: a/v1", "apiVersion: a/v2", `apiVersion changed "a/v1" -> "a/v2"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := parse(t, tc.before), parse(t, tc.after)
			fields := Fields(a, b)
			if got := listed(fields); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
			if got, err := Apply(a, fields); err != nil || !reflect.DeepEqual(got, b) {
				t.Errorf("applied: %v, %v", got, err)
			}
		})
	}
}

func TestNamed(t *testing.T) {
	for text, want := range map[string]string{
		"dev": "{cluster}", "dev-web": "{cluster}-web", "devil": "devil", "web.dev.svc": "web.{cluster}.svc", "a dev/dev": "a {cluster}/{cluster}", "devdev": "devdev", "devdev-dev": "devdev-{cluster}", "": "",
	} {
		if got := named(text, "dev"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// FuzzFields holds Apply(a, Fields(a, b)) == b for all values.
func FuzzFields(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"a","ports":[{"containerPort":80}]}]}}`, `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"b"},{"name":"a","ports":[{"containerPort":81}]}]}}`},
		{`{"l":[{"name":1},{"name":"1"}],"":{"":[]}}`, `{"l":[{"name":"1"},{"name":1},{}],"":{"":[{}]}}`},
		{`[[{"a":1},{"b":null}],2]`, `[[{"b":{}}],[]]`},
		{`{"a":[{"name":{}}]}`, `{"a":[{"name":[]},{"name":null}]}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		var a, b any
		if json.Unmarshal([]byte(before), &a) != nil || json.Unmarshal([]byte(after), &b) != nil {
			return
		}
		fields := Fields(a, b)
		for _, field := range fields {
			_ = field.Path.String()
		}
		if got, err := Apply(a, fields); err != nil || !reflect.DeepEqual(got, b) {
			t.Fatalf("%s\n%v, %v", listed(fields), got, err)
		}
		if (len(fields) == 0) != reflect.DeepEqual(a, b) {
			t.Fatalf("%d fields", len(fields))
		}
	})
}
