package tofu

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var record = flag.String("record", "", "write testdata with this OpenTofu: go test ./lab/tofu -record PATH")

// testdata/main.tf is applied by OpenTofu itself.
func TestRecorded(t *testing.T) {
	if *record != "" {
		recordTofu(t)
	}
	want := []Output{
		{Name: "account_id", Value: "012345678901"},
		{Name: "clusters", Value: map[string]any{"prod": map[string]any{"vpc_id": "vpc-0123456789abcdef0"}}},
		{Name: "node_count", Value: json.Number("3")},
		{Name: "password", Sensitive: true},
		{Name: "private", Value: true},
		{Name: "subnets", Value: []any{"subnet-1", "subnet-2"}},
	}
	for file, kind := range map[string]Kind{"terraform.tfstate": State, "output.json": Outputs, "show.json": Shown, "plan.json": Plan} {
		data, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		f, err := Read(data)
		if err != nil || f.Kind != kind {
			t.Errorf("%s: %q, %v", file, f.Kind, err)
		}
		if kind == Plan {
			known := f.Outputs
			f.Outputs = nil
			for _, o := range known {
				if o.Name == "id" && o.Unknown { // a resource's, which exists once applied
					continue
				}
				f.Outputs = append(f.Outputs, o)
			}
			if len(f.Outputs) == len(known) {
				t.Errorf("%s: no output is unknown: %+v", file, known)
			}
		} else {
			f.Outputs = without(f.Outputs, "id")
		}
		if d := cmp.Diff(want, f.Outputs); d != "" {
			t.Errorf("%s: -want +got\n%s", file, d)
		}
	}
}

func without(list []Output, name string) []Output {
	var out []Output
	for _, o := range list {
		if o.Name != name {
			out = append(out, o)
		}
	}
	return out
}

func recordTofu(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile("testdata/main.tf")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) []byte {
		t.Helper()
		cmd := exec.Command(*record, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "TF_CLI_CONFIG_FILE="+os.DevNull)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("tofu %q: %v", args, err)
		}
		return out
	}
	save := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join("testdata", name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run("init")
	run("plan", "-out=plan")
	save("plan.json", run("show", "-json", "plan"))
	run("apply", "-auto-approve")
	save("output.json", run("output", "-json"))
	save("show.json", run("show", "-json"))
	state, err := os.ReadFile(filepath.Join(dir, "terraform.tfstate"))
	if err != nil {
		t.Fatal(err)
	}
	save("terraform.tfstate", state)
}

const secretState = `{"version": 4, "outputs": {}, "resources": [
	{"module": "module.bootstrap", "mode": "managed", "type": "kubernetes_secret_v1", "name": "cluster", "instances": [
		{"index_key": 0, "attributes": {"metadata": [{"labels": {"enable_x": "true"}, "annotations": {"aws_region": "eu-west-1", "token": "hunter2"}}], "data": {"config": "secret"}},
			"sensitive_attributes": [[{"type": "get_attr", "value": "data"}], [{"type": "get_attr", "value": "metadata"}, {"type": "index", "value": {"value": 0, "type": "number"}},
				{"type": "get_attr", "value": "annotations"}, {"type": "index", "value": {"value": "token", "type": "string"}}]]}]},
	{"mode": "data", "type": "kubernetes_secret", "name": "other", "instances": [{"attributes": {"metadata": [{"labels": {"a": "b"}}]}}]},
	{"mode": "managed", "type": "aws_eks_cluster", "name": "this", "instances": [{"attributes": {"metadata": "of another shape"}}]}]}`

const secretPlan = `{"format_version": "1.2", "planned_values": {"root_module": {"child_modules": [{"resources": [
	{"address": "module.bootstrap.kubernetes_secret_v1.cluster[0]", "mode": "managed", "type": "kubernetes_secret_v1",
		"values": {"metadata": [{"labels": {"enable_x": "true"}, "annotations": {"aws_region": "eu-west-1", "token": "hunter2"}}]},
		"sensitive_values": {"data": true, "metadata": [{"annotations": {"token": true}, "labels": {}}]}}]}]}}}`

// The shape is that of the resource in the Kubernetes provider's schema.
func TestSecrets(t *testing.T) {
	want := []Secret{{
		Address: "module.bootstrap.kubernetes_secret_v1.cluster[0]",
		Labels:  map[string]string{"enable_x": "true"}, Annotations: map[string]string{"aws_region": "eu-west-1"}, Sensitive: []string{"token"},
	}}
	for _, text := range []string{secretState, secretPlan} {
		f, err := Read([]byte(text))
		if d := cmp.Diff(want, f.Secrets); d != "" || err != nil {
			t.Errorf("%v, -want +got\n%s", err, d)
		}
	}
}

func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{"version": 3, "resources": []}`:                     "only version 4",
		`{"encrypted_data": "x", "encryption_version": "v0"}`: "encrypted",
		`{"a": 1}`:                       "a is not an output",
		`{"a": {"b": 1}}`:                "a is not an output",
		`[]`:                             "cannot unmarshal",
		`{"version": 4, "resources": 1}`: "resources",
	} {
		if _, err := Read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(secretState))
	f.Add([]byte(secretPlan))
	f.Add([]byte(`{"a": {"sensitive": true, "type": "string", "value": "hunter2"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Read(data)
		if err != nil {
			return
		}
		for _, o := range file.Outputs {
			if o.Sensitive && o.Value != nil {
				t.Errorf("the value of %s is kept", o.Name)
			}
		}
	})
}
