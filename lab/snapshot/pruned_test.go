package snapshot_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"homelab/lab/docker"
	"homelab/lab/snapshot"
)

// engineWithoutImages is a docker command with a snapshot's volume but no image that could read it.
const engineWithoutImages = `#!/bin/sh
echo "$*" >>"$CALLS"
case "$1 $2" in
'volume ls') echo 'lab-demo-snapshot-abc,ready,lab-demo-snapshot:abc-0,sha256:1' ;;
'image ls') [ "$5" = lab-demo-snapshot ] && echo lab-demo-snapshot:abc-1 ;;
'image inspect') echo "Error: No such image: $5" >&2; exit 1 ;;
esac
`

func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(engineWithoutImages), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("CALLS", calls)
	s := snapshot.New("demo", docker.New())
	list, err := s.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Name != "ready" || len(list[0].Pruned) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := s.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(calls); err != nil || strings.Contains(string(text), "volume rm") || strings.Contains(string(text), "image rm") {
		t.Errorf("Clean removed volumes or images: %v\n%s", err, text)
	}
	if err := s.Remove(t.Context(), "ready"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"volume rm --force lab-demo-snapshot-abc", "image rm lab-demo-snapshot:abc-1"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// engineWithGarbled is a docker command with three snapshots: an intact one of an older lab, one with garbled metadata, and one of a newer lab.
const engineWithGarbled = `#!/bin/sh
case "$1 $2" in
'volume ls') for g in a b c; do echo "lab-demo-snapshot-$g,$g,lab-demo-snapshot:$g-0,sha256:1"; done ;;
'volume inspect') echo /x ;;
'image ls') for g in a b c; do echo "lab-demo-snapshot:$g-0"; done ;;
'run --rm')
	echo "lab-demo-snapshot-a $(printf '{"name": "a", "taken": "2026-11-22T16:14:41Z"}' | base64 -w0)"
	echo "lab-demo-snapshot-b $(printf '{"name":\n "b' | base64 -w0)"
	echo "lab-demo-snapshot-c $(printf '{"format": 9, "name": "c", "taken": "2026-11-23T16:14:41Z"}' | base64 -w0)" ;;
esac
`

func TestGarbled(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(engineWithGarbled), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	s := snapshot.New("demo", docker.New())
	list, err := s.List(t.Context())
	if err != nil || len(list) != 3 || list[0].Name != "a" || list[0].Unreadable != "" {
		t.Fatalf("%+v, %v", list, err)
	}
	for name, want := range map[string]string{"b": "its metadata cannot be read: unexpected end of JSON input", "c": "it was saved by a newer version of lab, in format 9; this version supports 1"} {
		o, err := s.Find(t.Context(), name)
		if err != nil || o.Unreadable != want || o.Restorable() == nil {
			t.Errorf("%+v, %v", o, err)
		}
	}
	if o, err := s.Find(t.Context(), ""); err != nil || o.Name != "a" {
		t.Errorf("the newest is %+v, %v", o, err)
	}
}
