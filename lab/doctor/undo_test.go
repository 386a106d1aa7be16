package doctor

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"homelab/lab"
)

// host returns the files of a machine by path, except backups.
func host(t *testing.T, m *machine) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(m.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.Contains(path, ".before-lab-") && !strings.Contains(path, "var/lib/apt") && !strings.Contains(path, "var/log") {
			info, err := d.Info()
			if err != nil {
				return err
			}
			files[strings.TrimPrefix(path, m.dir)] = info.Mode().String() + " " + read(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func undo(t *testing.T, m *machine) (map[string]string, error) {
	t.Helper()
	list, err := m.doctor().Undo(t.Context(), func(string) {})
	got := map[string]string{}
	for _, u := range list {
		note := "left: " + u.Note
		if u.Done {
			note = "done: " + u.Note
		}
		got[strings.ReplaceAll(u.What, m.dir, "")] = note
	}
	return got, err
}

// limited is a machine that needs every fix of files.
func limited(t *testing.T, daemonJSON string) *machine {
	m := engineThatReloads(t, daemonJSON)
	write(t, m.path("proc/sys/fs/inotify/max_user_watches"), "8192\n")
	write(t, m.path("proc/sys/fs/inotify/max_user_instances"), "128\n")
	write(t, m.path("etc/sysctl.d/README"), "")
	return m
}

func TestUndo(t *testing.T) {
	for _, daemonJSON := range []string{"", "{\n  \"mtu\": 1400 }", `{"runtimes": {"nvidia": {"path": "/usr/bin/nvidia"}}}`} {
		m := limited(t, daemonJSON)
		before := host(t, m)
		if _, err := fix(t, m); err != nil {
			t.Fatal(err)
		}
		if len(host(t, m)) < len(before)+4 {
			t.Fatalf("nothing was fixed: %v", host(t, m))
		}
		got, err := undo(t, m)
		if err != nil {
			t.Fatal(err)
		}
		for what, note := range got {
			if !strings.HasPrefix(note, "done: ") {
				t.Errorf("%q: %s was %s", daemonJSON, what, note)
			}
		}
		if diff := cmp.Diff(before, host(t, m)); diff != "" {
			t.Errorf("%q: the host before and after:\n%s", daemonJSON, diff)
		}
		if got, err := undo(t, m); err != nil || len(got) > 0 {
			t.Errorf("second Undo: %v, %v", got, err)
		}
	}
}

// What somebody changed since stays.
func TestUndoLeavesOthersChanges(t *testing.T) {
	m := limited(t, `{"mtu": 1400}`)
	if _, err := fix(t, m); err != nil {
		t.Fatal(err)
	}
	write(t, m.path("proc/sys/fs/inotify/max_user_watches"), "1048576\n")
	write(t, m.path("etc/sysctl.d/60-lab.conf"), "fs.inotify.max_user_watches = 1048576\n")
	config := strings.Replace(read(t, m.path("etc/docker/daemon.json")), `"mtu": 1400`, `"mtu": 9000, "debug": true`, 1)
	write(t, m.path("etc/docker/daemon.json"), config)
	got, err := undo(t, m)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"fs.inotify.max_user_watches":   "left: it has been changed to 1048576 since",
		"fs.inotify.max_user_instances": "done: 512 is 128 again",
		"/etc/sysctl.d/60-lab.conf":     "left: it has been changed since",
		"/etc/docker/daemon.json":       "done: other changes to it are kept; docker keeps the runtime until it restarts",
		"/usr/local/lib/lab/lab-runc":   "done: removed, as before",
		"/usr/local/lib/lab/bin/docker": "done: removed, as before",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if text := read(t, m.path("etc/docker/daemon.json")); !sameJSON([]byte(text), []byte(`{"mtu": 9000, "debug": true}`)) {
		t.Errorf("daemon.json: %s", text)
	}
}

// As long as the configuration names the runtime, its program stays.
func TestUndoKeepsWhatIsNeeded(t *testing.T) {
	m := limited(t, "")
	if _, err := fix(t, m); err != nil {
		t.Fatal(err)
	}
	config := strings.Replace(read(t, m.path("etc/docker/daemon.json")), "{", `{"default-runtime": "lab-runc",`, 1)
	write(t, m.path("etc/docker/daemon.json"), config)
	got, err := undo(t, m)
	if err != nil || !strings.Contains(got["/etc/docker/daemon.json"], "left: it has been changed since: lab-runc is now the default runtime") ||
		!strings.HasPrefix(got["/usr/local/lib/lab/lab-runc"], "left: ") || !executable(m.path("usr/local/lib/lab/lab-runc")) {
		t.Errorf("%v, %v", got, err)
	}
	if read(t, m.path("etc/docker/daemon.json")) != config {
		t.Error("daemon.json was changed")
	}
}

// Containers of the runtime could not be started again.
func TestUndoInUse(t *testing.T) {
	m := limited(t, `{"mtu": 1400}`)
	if _, err := fix(t, m); err != nil {
		t.Fatal(err)
	}
	before := host(t, m)
	m.Uses = "runc /other\nlab-runc /demo-hub-control-plane\n"
	_, err := undo(t, m)
	var e *lab.Error
	if !errors.As(err, &e) || e.Code != "in_use" || !cmp.Equal(e.Details, []string{"demo-hub-control-plane"}) || !maps.Equal(before, host(t, m)) {
		t.Errorf("%v %q", err, e.Details)
	}
	m.Uses = "runc /other\n"
	if _, err := undo(t, m); err != nil {
		t.Error(err)
	}
}

// Packages and the engine stay: others may need them by now.
func TestUndoLeavesPackages(t *testing.T) {
	m := bare(t, serve)
	if _, err := fix(t, m); err != nil {
		t.Fatal(err)
	}
	m.ran = nil
	got, err := undo(t, m)
	want := map[string]string{
		"docker.io": "left: removing packages is up to you: apt-get remove docker.io", "dockerd": "left: lab started it; stopping it would stop everybody's containers",
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil || len(m.ran) > 0 {
		t.Errorf("%v, ran %q: %s", err, m.ran, diff)
	}
}

// A run that was killed between the record and the change has changed nothing.
func TestUndoAfterAKilledFix(t *testing.T) {
	m := limited(t, `{"mtu": 1400}`)
	before := host(t, m)
	if _, err := fix(t, m); err != nil {
		t.Fatal(err)
	}
	record := read(t, m.path("var/lib/lab/doctor.json"))
	if _, err := undo(t, m); err != nil {
		t.Fatal(err)
	}
	write(t, m.path("var/lib/lab/doctor.json"), record)
	got, err := undo(t, m)
	if err != nil || got["/etc/docker/daemon.json"] != "done: it was already reverted" {
		t.Errorf("%v, %v", got, err)
	}
	if diff := cmp.Diff(before, host(t, m)); diff != "" {
		t.Error(diff)
	}
}

// Versions up to 0.1 made the runtime the default, and kept no record.
func TestUndoOfAnOlderVersion(t *testing.T) {
	m := limited(t, `{"default-runtime": "lab-runc", "runtimes": {"lab-runc": {"path": "/usr/local/lib/lab/lab-runc"}}}`)
	if got, err := undo(t, m); err != nil || !strings.HasSuffix(got["/etc/docker/daemon.json"], "there was no such file before") {
		t.Errorf("%v, %v", got, err)
	}
	write(t, m.path("etc/docker/daemon.json.before-lab"), `{"mtu": 1400}`)
	got, err := undo(t, m)
	if err != nil || !strings.HasSuffix(got["/etc/docker/daemon.json"], "daemon.json.before-lab") {
		t.Errorf("%v, %v", got, err)
	}
}

func TestUndoRefuses(t *testing.T) {
	m := limited(t, "")
	m.notRoot = true
	var e *lab.Error
	if _, err := undo(t, m); !errors.As(err, &e) || e.Code != "needs_root" {
		t.Errorf("%v", err)
	}
	m.notRoot = false
	for _, text := range []string{"{", `{"format": 2, "changes": []}`} {
		write(t, m.path("var/lib/lab/doctor.json"), text)
		if _, err := undo(t, m); !errors.As(err, &e) || e.Code != "doctor_record" {
			t.Errorf("%s: %v", text, err)
		}
		d := m.doctor()
		if err := d.Fix(context.WithoutCancel(t.Context()), d.Run(t.Context()), func(string) {}); !errors.As(err, &e) || e.Code != "doctor_record" {
			t.Errorf("%s: Fix: %v", text, err)
		}
		if read(t, m.path("proc/sys/fs/inotify/max_user_watches")) != "8192\n" {
			t.Error("a change without a record")
		}
	}
	if _, err := os.Stat(m.path("etc/docker/daemon.json")); err == nil {
		t.Error("daemon.json was written without a record")
	}
}
