package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A write that fails after the file was truncated, as on a full disk, leaves the user's kubeconfig unchanged.
func TestIntact(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "config"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("mine\n"), 0o640), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	files := []string{link, filepath.Join(dir, "absent")}
	full := errors.New("no space left on device")
	for text, fails := range map[string]error{"": full, "theirs\n": nil} {
		err := intact(files, func() error { return errors.Join(os.WriteFile(link, []byte(text), 0o640), fails) })
		if !errors.Is(err, fails) {
			t.Errorf("%q: %v", text, err)
		}
		want := text
		if fails != nil {
			want = "mine\n"
		}
		got, rerr := os.ReadFile(link)
		info, serr := os.Stat(file)
		if err := errors.Join(rerr, serr); err != nil || string(got) != want || info.Mode().Perm() != 0o640 {
			t.Errorf("%q, %v", got, err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
			t.Errorf("left over: %v, %v", entries, err)
		}
		if err := os.WriteFile(file, []byte("mine\n"), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	did := false
	if err := intact([]string{filepath.Join(dir, "config", "x")}, func() error { did = true; return nil }); err == nil || did {
		t.Errorf("for a file that cannot be examined: %v", err)
	}
}
