package front

import (
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/front/proxy"
)

var update = flag.Bool("update", false, "update golden files")

func example() Config {
	return Config{
		Lab: "shop", Namespace: "argocd", Image: "lab/front:v1-0123456789ab", NodePort: 30081, Engine: "http://argocd-server.argocd.svc/api/webhook",
		Mirrors: []proxy.Mirror{
			MirrorOf(lab.Repository{URL: "git@github.com:acme/platform.git"}, "http://lab-shop-forge:3000/lab/platform.git"),
			MirrorOf(lab.Repository{URL: "https://github.com/acme/gitops"}, "http://lab-shop-forge:3000/lab/gitops.git"),
		},
		Secrets: proxy.Secrets{Webhook: "s3cret", User: "reader", Password: "a token"},
	}
}

func TestObjects(t *testing.T) {
	objects, err := Objects(example())
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	for _, o := range objects {
		doc, err := yaml.Marshal(o.DeepCopy().Object) // DeepCopy panics on number types unknown to JSON
		if err != nil {
			t.Fatal(err)
		}
		got = append(append(got, "---\n"...), doc...)
	}
	file := filepath.Join("testdata", "objects.golden.yaml")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// All fields and their types are known to Kubernetes.
func TestObjectsStrict(t *testing.T) {
	objects, err := Objects(example())
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]any{"ConfigMap": corev1.ConfigMap{}, "Secret": corev1.Secret{}, "Deployment": appsv1.Deployment{}, "Service": corev1.Service{}}
	for _, o := range objects {
		typed := reflect.New(reflect.TypeOf(types[o.GetKind()])).Interface()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, typed, true); err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

func TestDeploymentRollout(t *testing.T) {
	inputs := func(change func(*Config)) string {
		c := example()
		change(&c)
		objects, err := Objects(c)
		if err != nil {
			t.Fatal(err)
		}
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[2].Object, &d); err != nil {
			t.Fatal(err)
		}
		return d.Spec.Template.Annotations[lab.LabelInputs]
	}
	base := inputs(func(*Config) {})
	for name, change := range map[string]func(*Config){
		"secret": func(c *Config) { c.Secrets.Webhook = "another" },
		"engine": func(c *Config) { c.Engine += "/" },
		"mirror": func(c *Config) { c.Mirrors = c.Mirrors[:1] },
	} {
		if inputs(change) == base {
			t.Errorf("%s: change does not roll out pods", name)
		}
	}
	if inputs(func(c *Config) { c.Mirrors[0], c.Mirrors[1] = c.Mirrors[1], c.Mirrors[0] }) != base {
		t.Error("order of mirrors rolls out pods")
	}
}

// The program accepts the output of Marshal.
func TestMarshal(t *testing.T) {
	c := example()
	config, secrets, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{configFile: config, secretsFile: secrets} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gotConfig, gotSecrets, err := proxy.Read(filepath.Join(dir, configFile), filepath.Join(dir, secretsFile))
	if err != nil {
		t.Fatal(err)
	}
	if gotSecrets != c.Secrets || gotConfig.Engine != c.Engine || len(gotConfig.Mirrors) != 2 {
		t.Errorf("read %+v, %+v", gotConfig, gotSecrets)
	}
	if _, err := proxy.New(gotConfig, gotSecrets, slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
	if _, _, err := proxy.Read(filepath.Join(dir, secretsFile), filepath.Join(dir, "missing")); err == nil {
		t.Error("secrets accepted as configuration")
	}
}

// The engine's Secret stays the same as long as the lab's secret does.
func TestSSHKey(t *testing.T) {
	keys := map[string]bool{}
	for _, secret := range []string{"a", "b", "a"} {
		key, err := SSHKey(secret)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ssh.ParsePrivateKey([]byte(key)); err != nil {
			t.Error(err)
		}
		keys[key] = true
	}
	if len(keys) != 2 {
		t.Errorf("got %d keys for two secrets", len(keys))
	}
}
