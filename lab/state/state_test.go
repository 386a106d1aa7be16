package state

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"homelab/lab"
)

func open(t *testing.T) *Dir {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	d, err := Open("demo")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestOpenCreatesNothing(t *testing.T) {
	d := open(t)
	if d.Exists() {
		t.Error("exists")
	}
	if _, err := os.Stat(d.Path); !os.IsNotExist(err) {
		t.Errorf("stat %s: %v, want not exist", d.Path, err)
	}
}

func TestRecord(t *testing.T) {
	d := open(t)
	want := Record{Lab: "demo", Estate: "/srv/estate", Engine: Engine{Type: lab.EngineArgoCD, Namespace: "gitops"}, Former: Engine{Type: lab.EngineFlux, Shape: lab.ShapeStandalone}, Ports: Ports{Engine: 8081, Forge: 3001}}
	if err := d.Save(want); err != nil {
		t.Fatal(err)
	}
	got, err := d.Load()
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	names, err := List()
	if err != nil || len(names) != 1 || names[0] != "demo" {
		t.Errorf("List: %v, %v", names, err)
	}
	if err := d.Remove(); err != nil || d.Exists() {
		t.Errorf("Remove: %v, exists %v", err, d.Exists())
	}
	if _, err := os.Stat(filepath.Dir(d.Path)); !os.IsNotExist(err) {
		t.Errorf("the parent folder remains: %v", err)
	}
}

func TestCredentials(t *testing.T) {
	d := open(t)
	if c, err := d.Credentials(); err != nil || !c.whole() {
		t.Errorf("without any: %v", err)
	}
	if _, err := os.Stat(d.Path); !os.IsNotExist(err) {
		t.Errorf("reading them created the folder: %v", err)
	}
	if err := d.Renew(); err != nil {
		t.Fatal(err)
	}
	first, err := d.Credentials()
	if err != nil {
		t.Fatal(err)
	}
	second, err := d.Credentials()
	if err != nil || !reflect.DeepEqual(first, second) {
		t.Errorf("the second reading differs: %v", err)
	}
	if first.ForgePassword == first.EnginePassword || len(first.ForgePassword) != 24 {
		t.Error("passwords are not random")
	}
	if err := bcrypt.CompareHashAndPassword([]byte(first.EngineHash), []byte(first.EnginePassword)); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]os.FileMode{d.Path: 0o700, filepath.Join(d.Path, credentialsFile): 0o600} {
		fi, err := os.Stat(path)
		if err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v %v, want %v", path, fi.Mode().Perm(), err, want)
		}
	}
}

// A former lab keeps what its forge's volume is encrypted with, and gets a password that its clusters never had.
func TestRenew(t *testing.T) {
	d := open(t)
	const was = "0123456789abcdefghijABCD"
	text := `{"forgeUser": "lab", "forgePassword": "` + was + `", "argocdUser": "admin", "argocdPassword": "a", "argocdHash": "h", "webhookSecret": "w"}`
	if err := d.put(credentialsFile, []byte(text)); err != nil {
		t.Fatal(err)
	}
	before, err := d.Credentials()
	if err != nil || before.ForgePassword != was || before.ForgeKeys != (ForgeKeys{}) {
		t.Fatalf("%+v, %v; want the former credentials, as other commands than lab up need them", before, err)
	}
	if err := d.Renew(); err != nil {
		t.Fatal(err)
	}
	after, err := d.Credentials()
	if err != nil {
		t.Fatal(err)
	}
	// What version 1 derived from this password.
	if want := "e787a6fd4a3a5301657ed7d1"; !strings.HasPrefix(after.ForgeKeys.Secret, want) || len(after.ForgeKeys.Secret) != 64 {
		t.Errorf("the secret key is %s, want that of the volume, %s...", after.ForgeKeys.Secret, want)
	}
	if after.ForgePassword == was || len(after.ForgePassword) != 24 || len(after.ForgeKeys.Internal) != 24 || len(after.ForgeKeys.JWT) != 43 {
		t.Errorf("%+v", after)
	}
	if after.EnginePassword != "a" || after.WebhookSecret != "w" || after.ForgeUser != "lab" {
		t.Errorf("other credentials changed: %+v", after)
	}
	if err := d.Renew(); err != nil {
		t.Fatal(err)
	}
	if again, err := d.Credentials(); err != nil || !reflect.DeepEqual(again, after) {
		t.Errorf("renewed again: %+v, %v", again, err)
	}
}

// A new lab's keys do not follow from its password.
func TestKeysOfNewLab(t *testing.T) {
	d := open(t)
	if err := d.Renew(); err != nil {
		t.Fatal(err)
	}
	c, err := d.Credentials()
	if err != nil || d.Renew() != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, key := range []string{c.ForgePassword, c.ForgeKeys.Secret, c.ForgeKeys.Internal, c.ForgeKeys.JWT, c.RegistryPassword, c.RegistryHash, c.RunnerPassword, c.RunnerSecret} {
		if len(key) < 24 || seen[key] {
			t.Errorf("keys %+v", c.ForgeKeys)
		}
		seen[key] = true
	}
	if again, err := d.Credentials(); err != nil || !reflect.DeepEqual(again, c) {
		t.Errorf("renewed %+v, %v; want it unchanged", again, err)
	}
}

func TestForgeTokens(t *testing.T) {
	d := open(t)
	if got := d.ForgeToken("reader"); got != "" {
		t.Errorf("a new lab has the token %q", got)
	}
	for user, token := range map[string]string{"reader": "r", "writer": "w"} {
		if err := d.SaveForgeToken(user, token); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.SaveForgeToken("writer", ""); err != nil {
		t.Fatal(err)
	}
	c, err := d.Credentials()
	if err != nil || d.ForgeToken("reader") != "r" || d.ForgeToken("writer") != "" {
		t.Errorf("%+v, %v", c.ForgeTokens, err)
	}
	for _, secret := range []string{"r", c.ForgeKeys.Secret, c.ForgeKeys.Internal, c.ForgeKeys.JWT, c.RegistryPassword, c.RegistryHash} {
		if values, _ := d.Secrets(); !slices.Contains(values, secret) {
			t.Errorf("secrets %q lack %q", values, secret)
		}
	}
}

func TestBrokenRecord(t *testing.T) {
	d := open(t)
	if err := d.Create(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.Path, recordFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var le *lab.Error
	if _, err := d.Load(); !errors.As(err, &le) || le.Cure == "" {
		t.Errorf("got %v", err)
	}
}

// An unreadable file is not a missing one, and the printed cure works.
func TestUnreadableFiles(t *testing.T) {
	for name, read := range map[string]func(*Dir) error{
		recordFile:      func(d *Dir) error { _, err := d.Load(); return err },
		credentialsFile: func(d *Dir) error { _, err := d.Credentials(); return err },
		pullFile:        func(d *Dir) error { return d.LoadPull(&struct{}{}) },
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			if err := os.MkdirAll(filepath.Join(d.Path, name), 0o700); err != nil {
				t.Fatal(err)
			}
			var e *lab.Error
			if err := read(d); !errors.As(err, &e) || e.Code != "state" || e.Cure == "" {
				t.Errorf("%v", err)
			}
			if aside, err := d.SetAside(); len(aside) > 0 || err != nil {
				t.Errorf("%q, %v", aside, err)
			}
		})
	}
}

func TestCredentialsWithoutPassword(t *testing.T) {
	for _, text := range []string{"{}", "null", `{"forgeUser":"lab","argocdUser":"admin"}`} {
		d := open(t)
		if err := errors.Join(d.Create(), os.WriteFile(filepath.Join(d.Path, credentialsFile), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		var e *lab.Error
		if _, err := d.Credentials(); !errors.As(err, &e) || e.Code != CodeGarbled {
			t.Errorf("%s: %v", text, err)
		}
		if aside, err := d.SetAside(); len(aside) != 1 || err != nil {
			t.Errorf("%s: %q, %v", text, aside, err)
		}
		if c, err := d.Credentials(); err != nil || !c.whole() {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestNewerRecord(t *testing.T) {
	d := open(t)
	const text = `{"format": 2, "lab": "demo", "engine": "other"}`
	if err := errors.Join(d.Create(), os.WriteFile(filepath.Join(d.Path, recordFile), []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	var e *lab.Error
	if _, err := d.Load(); !errors.As(err, &e) || e.Code != "newer" || e.Cure == "" {
		t.Errorf("%v", err)
	}
	if aside, err := d.SetAside(); len(aside) > 0 || err != nil {
		t.Errorf("%q, %v", aside, err)
	}
}

func TestUnwritableFolder(t *testing.T) {
	for _, err := range []error{fs.ErrPermission, syscall.EROFS, syscall.ENOSPC} {
		var e *lab.Error
		if got := writeError("file", err); !errors.As(got, &e) || e.Cure == "" || !errors.Is(got, err) {
			t.Errorf("%v", got)
		}
	}
	d := open(t)
	if err := errors.Join(os.MkdirAll(filepath.Dir(d.Path), 0o700), os.WriteFile(d.Path, nil, 0o600)); err != nil { // a file in place of the folder
		t.Fatal(err)
	}
	var e *lab.Error
	if _, err := d.Lock(t.Context()); !errors.As(err, &e) || e.Code != "state" {
		t.Errorf("%v", err)
	}
}

func TestFreePort(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err) // no IPv6
			continue
		}
		defer l.Close()
		busy := l.Addr().(*net.TCPAddr).Port
		got, err := FreePort(busy, busy+1)
		if err != nil || got == busy || got == busy+1 {
			t.Errorf("got %d, %v with %s busy and %d taken", got, err, l.Addr(), busy+1)
		}
	}
}

func TestSecrets(t *testing.T) {
	d := &Dir{Lab: "demo", Path: t.TempDir()}
	if err := d.Renew(); err != nil {
		t.Fatal(err)
	}
	c, err := d.Credentials()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.put("kubeconfigs/hub.yaml", []byte("token: x")); err != nil {
		t.Fatal(err)
	}
	values, kubeconfigs := d.Secrets()
	slices.Sort(values)
	want := []string{c.ForgePassword, c.EnginePassword, c.EngineHash, c.WebhookSecret, c.ForgeKeys.Secret, c.ForgeKeys.Internal, c.ForgeKeys.JWT, c.RegistryPassword, c.RegistryHash, c.RunnerPassword, c.RunnerSecret}
	slices.Sort(want)
	if !slices.Equal(values, want) || len(kubeconfigs) != 1 || string(kubeconfigs[0]) != "token: x" {
		t.Errorf("%q, %q", values, kubeconfigs)
	}
}

// Labs of before recorded an engine's type, shape and namespace in fields of the record itself, and those of its former engine in others.
func TestRecordOfBefore(t *testing.T) {
	d := open(t)
	const text = `{"format":1,"lab":"demo","estate":"/srv/estate","engine":"flux","images":"auto","namespace":"gitops",` +
		`"formerEngine":{"engine":"argocd","namespace":"argo"},"shape":"standalone","ports":{"argocd":8081,"forge":3001}}`
	if err := os.MkdirAll(d.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.Path, recordFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := d.Load()
	is, was := Engine{lab.EngineFlux, lab.ShapeStandalone, "gitops"}, Engine{lab.EngineArgoCD, "", "argo"}
	if err != nil || got.Engine != is || got.Former != was || got.Images != "auto" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := d.Save(got); err != nil {
		t.Fatal(err)
	}
	var old, now map[string]any
	saved, err := os.ReadFile(filepath.Join(d.Path, recordFile))
	if err == nil {
		err = errors.Join(json.Unmarshal(saved, &now), json.Unmarshal([]byte(text), &old))
	}
	if err != nil || !reflect.DeepEqual(now, old) {
		t.Errorf("written as %s, %v", saved, err)
	}
}

// TestWellKnownPort gets another port with the same last digits where a well-known one is taken.
func TestWellKnownPort(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	d, err := Open("demo")
	if err != nil {
		t.Fatal(err)
	}
	least, most := 8443, 8443+200
	if l, err := net.Listen("tcp", "127.0.0.1:443"); err == nil {
		defer l.Close()
	} else if c, err := net.Dial("tcp", "127.0.0.1:443"); err == nil {
		defer c.Close()
	} else { // free, though not for this process: the container engine listens
		least, most = 443, 443
	}
	if got, err := d.Port("door/443", 443); err != nil || got < least || got > most {
		t.Errorf("got %d, %v", got, err)
	}
}
