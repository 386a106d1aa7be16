package lint

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"homelab/lab/strict"
)

func FuzzComments(f *testing.F) {
	for _, seed := range []string{"# lab:ignore floating-image a reason\n", "a: b # lab:ignore\n", "#lab:ignore x\r\n", "\xff# lab:ignore not-yaml \x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		valid, wrong := comments("a.yaml", text)
		lines := strings.Count(text, "\n") + 1
		if len(valid)+len(wrong) > lines {
			t.Errorf("%d comments in %d lines", len(valid)+len(wrong), lines)
		}
		for _, c := range valid {
			if c.Line < 1 || c.Line > lines {
				t.Errorf("line %d of %d", c.Line, lines)
			}
		}
	})
}

func TestMentioned(t *testing.T) {
	const values = "a: {b: 1, c: 1}\nd-e: {f: 1, g: 1}\nh: 1\n"
	for _, tc := range []struct{ text, want string }{
		{"{{ .Values.a.b }}{{ $.Values.h }}", "a.c d-e"},
		{"{{ with .Values.a }}{{ .c }}{{ end }}{{ .Values.h }}", "d-e"},
		{`{{ index .Values "d-e" "f" }}{{ (index $root.Values "a").b }}`, "d-e.g h"},
		{`{{ index .Values.a "b" }}`, "d-e h"},
		{"{{ toYaml .Values }}", ""},
		{"{{ $v := .Values }}{{ $v.h }}", ""},
		{`{{ get .Values "h" }}`, ""},
		{`{{ index .Values $name }}`, ""},
		{`{{ .ValuesOther.h }}`, "a d-e h"},
	} {
		k := &known{}
		k.mentioned(tc.text)
		docs, _ := strict.Parse("values.yaml", []byte(values))
		var got []string
		k.unused(docs[0], nil, func(at []string, _ *yaml.Node) { got = append(got, strings.Join(at, ".")) })
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: unused %q, want %q", tc.text, got, tc.want)
		}
	}
}

// FuzzMentioned checks that what is mentioned by its path counts as used, whatever else a text has.
func FuzzMentioned(f *testing.F) {
	for _, seed := range []string{"{{ .Values", `{{ index .Values "`, ".Values.a.b.c", `index .Values "a" "b"`, ".Values..a", ".Values.\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		k := &known{}
		k.mentioned(text + "\n{{ .Values.certain.path }}")
		if !k.all && (k.fields["certain"] == nil || !k.fields["certain"].all && k.fields["certain"].fields["path"] == nil) {
			t.Errorf("%q hides .Values.certain.path", text)
		}
	})
}

func FuzzMisspelt(f *testing.F) {
	f.Add("addons_repo_url", "addons_repo_ulr")
	f.Add("subnet_1", "subnet_2")
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a) >= 6 && len(b) >= 6 && misspelt(a, b) != misspelt(b, a) {
			t.Errorf("%q and %q", a, b)
		}
	})
}
