package source

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"homelab/lab"
)

// statusForm is a dpkg status file with a version of bash.
const statusForm = `Package: zlib1g
Status: install ok installed
Version: 1:1.2.13.dfsg-1

Package: bash
Status: install ok installed
Architecture: amd64
Version: %s
Description: GNU Bourne Again SHell
 Version: none of these

Package: gone
Status: deinstall ok config-files
Version: 1
`

// The packages in an image are in its label, and another set of packages is another image.
func TestInstalled(t *testing.T) {
	r, err := Parse("recipes.yaml", []byte(imageRecipes))
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]bool{}
	for _, bash := range []string{"5.2.15-2+b8", "5.2.15-2+b9"} {
		b := New(r, madeOf(t, r, bash))
		img, err := b.Image(t.Context(), "img", nil)
		if err != nil {
			t.Fatal(err)
		}
		digests[img.Digest] = true
		got, err := tarball.ImageFromPath(img.Archive, nil)
		if err != nil {
			t.Fatal(err)
		}
		config, err := got.ConfigFile()
		want := []string{"bash=" + bash, "zlib1g=1:1.2.13.dfsg-1"}
		if err != nil || config.Config.Labels[lab.LabelDebian] != strings.Join(want, " ") {
			t.Errorf("%v, %q", err, config.Config.Labels[lab.LabelDebian])
		}
		items, err := b.Items()
		if err != nil {
			t.Fatal(err)
		}
		if list, err := b.Installed(items[2]); err != nil || !slices.Equal(list, want) {
			t.Errorf("%q, %v", list, err)
		}
		// Built before there was a label: its root file system still has the list.
		named := *items[2].Component
		if _, err := writeImage(&named, "amd64", nil, nil, items[2].Entry.Path(archiveFile)); err != nil {
			t.Fatal(err)
		}
		if list, err := b.Installed(items[2]); err != nil || !slices.Equal(list, want) {
			t.Errorf("of an old image %q, %v", list, err)
		}
		items[2].Entry.Made = items[2].Entry.Made.AddDate(0, 0, -1)
		if list, err := b.Installed(items[2]); err != nil || list != nil {
			t.Errorf("of an image older than its root %q, %v", list, err)
		}
	}
	if len(digests) != 2 {
		t.Error("two sets of packages are one image")
	}
}

// debootstrap is asked to check signatures, and not run where it could not.
func TestDebianSignatures(t *testing.T) {
	if Possible() != nil || os.Geteuid() != 0 {
		t.Skip("needs root on Linux")
	}
	r, err := Parse("recipes.yaml", []byte("components:\n- {name: root, kind: rootfs, suite: bookworm, debian: [bash]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	root, _ := r.Get("root")
	bin := t.TempDir()
	script := "#!/bin/sh\necho \"$@\" >" + filepath.Join(bin, "args") + "\n"
	if err := os.WriteFile(filepath.Join(bin, "debootstrap"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":/bin:/usr/bin")
	b := New(r, newStore(t))
	b.keyring = filepath.Join(bin, "keys.gpg")
	var e *lab.Error
	if err := b.debootstrap(t.Context(), root, t.TempDir()); !errors.As(err, &e) || e.Code != "no_keyring" || !strings.Contains(e.Cure, "debian-archive-keyring") {
		t.Errorf("without a keyring: %v", err)
	}
	if err := os.WriteFile(b.keyring, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := b.debootstrap(t.Context(), root, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	args, err := os.ReadFile(filepath.Join(bin, "args"))
	if err != nil || !strings.HasPrefix(string(args), "--keyring="+b.keyring+" --force-check-gpg ") {
		t.Errorf("%q, %v", args, err)
	}
}

// The real debootstrap installs nothing from a mirror whose Release file is not Debian's.
func TestUnsignedMirror(t *testing.T) {
	if _, err := exec.LookPath("/usr/sbin/debootstrap"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and debootstrap")
	}
	if _, err := os.Stat(keyring); err != nil {
		t.Skip(err)
	}
	var asked []string
	mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		switch {
		case strings.HasSuffix(r.URL.Path, "/Release"):
			_, _ = w.Write([]byte("Origin: Debian\nSuite: stable\nCodename: bookworm\nComponents: main\nArchitectures: amd64 arm64\nSHA256:\n"))
		case strings.HasSuffix(r.URL.Path, "/Release.gpg"):
			_, _ = w.Write([]byte("-----BEGIN PGP SIGNATURE-----\n-----END PGP SIGNATURE-----\n"))
		default:
			http.NotFound(w, r)
		}
	}))
	defer mirror.Close()
	bin := t.TempDir()
	script := "#!/bin/sh\necho " + mirror.URL + " bookworm main Packages\n"
	if err := os.WriteFile(filepath.Join(bin, "apt-get"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	r, err := Parse("recipes.yaml", []byte("components:\n- {name: root, kind: rootfs, suite: bookworm, debian: [bash]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	root, _ := r.Get("root")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = New(r, newStore(t)).debootstrap(ctx, root, filepath.Join(t.TempDir(), "root"))
	if err == nil || !strings.Contains(err.Error(), "signature") && !strings.Contains(err.Error(), "Invalid Release") {
		t.Errorf("got %v", err)
	}
	if slices.ContainsFunc(asked, func(p string) bool { return strings.Contains(p, "Packages") }) {
		t.Errorf("asked for %q", asked)
	}
}
