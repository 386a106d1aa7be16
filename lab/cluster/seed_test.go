package cluster

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/state"
)

// seedEngine is a docker command whose state is in files in $STATE: volumes in volumes/, those in use in busy/, complete ones in whole/. $FAIL makes runs
// fail.
const seedEngine = `#!/bin/sh
echo "$*" >>"$STATE/calls"
for name; do :; done # the last argument
case "$1 $2" in
'image inspect') echo sha256:node ;;
'volume ls') ls "$STATE/volumes" ;;
'volume inspect') echo /elsewhere ;;
'volume create') touch "$STATE/volumes/$name" ;;
'volume rm') [ ! -e "$STATE/busy/$name" ] || { echo "volume is in use - [42]" >&2; exit 1; }; rm -f "$STATE/volumes/$name" "$STATE/whole/$name" ;;
'ps --all')
  case "$*" in
  *io.x-k8s.kind.cluster*) echo node; exit ;;
  esac
  for f in "$STATE/busy"/*; do # the other process has ended
    [ ! -e "$f" ] || [ "$(cat "$f")" = killed ] || touch "$STATE/volumes/${f##*/}" "$STATE/whole/${f##*/}"
    rm -f "$f"
  done ;;
'rm --force') ;;
'container inspect') echo '[{"Name":"/node","HostConfig":{"NetworkMode":"lab-demo"},"Mounts":[{"Name":"var","Destination":"/var"}]}]' ;;
'exec node') ;;
'run --rm')
  case "$*" in
  *'echo whole'*) [ ! -e "$STATE/whole/$name" ] || echo whole ;;
  *'stat -c'*) ;;
  */lab-seed) seed=$(echo "$*" | tr '\n' ' ' | sed 's/.*bash \(lab-seed-[0-9a-f]*\) .*/\1/'); [ -e "$STATE/whole/$seed" ] || exit 3 ;;
  *) cat >"$STATE/stdin"
    name=$(echo "$*" | tr '\n' ' ' | sed 's/.*--name \(lab-seed-[0-9a-f]*\) .*/\1/')
    [ ! -e "$STATE/busy/$name" ] || { echo "Conflict. The container name \"/$name\" is already in use by container 42" >&2; exit 125; }
    [ -z "$FAIL" ] || { echo no room >&2; exit 1; }
    for v in $(ls "$STATE/volumes"); do touch "$STATE/whole/$v"; done ;;
  esac ;;
esac
`

func newSeedEngine(t *testing.T) (k *Kind, dir string, images []lab.Image) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"volumes", "busy", "whole"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"docker": seedEngine, "a.tar": "first", "b.tar": "second one"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("STATE", dir)
	images = []lab.Image{{Ref: "a:1", Digest: "sha256:a", Archive: filepath.Join(dir, "a.tar")}, {Ref: "b:1", Digest: "sha256:b", Archive: filepath.Join(dir, "b.tar")}}
	return NewKind(&state.Dir{Lab: "demo", Path: dir}, docker.WithWrapper(""), Host{}), dir, images
}

func discard(string) {}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// made returns the number of attempts to create a seed.
func made(t *testing.T, dir string) int {
	t.Helper()
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(calls), "target=/var")
}

func TestSeedMadeOnce(t *testing.T) {
	k, dir, images := newSeedEngine(t)
	var group sync.WaitGroup
	names := make([]string, 3)
	for i := range names {
		group.Go(func() {
			var err error
			if names[i], err = k.seed(t.Context(), "node:1", images, discard); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := made(t, dir); n != 1 || names[0] != names[1] || names[0] != seedName("sha256:node", images) {
		t.Errorf("created %d times: %q", n, names)
	}
	if in, err := os.ReadFile(filepath.Join(dir, "stdin")); err != nil || string(in) != "5\nfirst10\nsecond oneend\n" {
		t.Errorf("input %q, %v", in, err)
	}
	other, err := k.seed(t.Context(), "node:1", images[:1], discard)
	if err != nil || other == names[0] || made(t, dir) != 2 {
		t.Errorf("a seed of other images: %s, %v", other, err)
	}
}

// A seed that another process is creating is waited for, and created if that process leaves it incomplete.
func TestSeedMadeElsewhere(t *testing.T) {
	for end, want := range map[string]int{"done": 1, "killed": 2} { // the first is refused
		t.Run(end, func(t *testing.T) {
			k, dir, images := newSeedEngine(t)
			name := seedName("sha256:node", images)
			put(t, filepath.Join(dir, "busy", name), end)
			if _, err := k.seed(t.Context(), "node:1", images, discard); err != nil {
				t.Fatal(err)
			}
			if err := k.plantWhole(t.Context(), name, Spec{Cluster: lab.Cluster{Name: "dev"}, NodeRef: "node:1"}, images, discard); err != nil {
				t.Fatal(err)
			}
			if n := made(t, dir); n != want {
				t.Errorf("created %d times, want %d", n, want)
			}
		})
	}
}

func TestSeedFails(t *testing.T) {
	k, dir, images := newSeedEngine(t)
	t.Setenv("FAIL", "1")
	if _, err := k.seed(t.Context(), "node:1", images, discard); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "volumes")); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
	before := made(t, dir)
	images[0].Archive = filepath.Join(dir, "absent")
	if _, err := k.seed(t.Context(), "node:1", images, discard); !errors.Is(err, os.ErrNotExist) || made(t, dir) != before {
		t.Errorf("%v", err)
	}
}

func TestSeedIncomplete(t *testing.T) {
	k, dir, images := newSeedEngine(t)
	spec := Spec{Cluster: lab.Cluster{Name: "dev"}, NodeRef: "node:1"}
	seed := seedName("sha256:node", images)
	put(t, filepath.Join(dir, "volumes", seed), "")
	if err := k.plant(t.Context(), seed, spec); !errors.Is(err, errIncomplete) {
		t.Fatalf("%v", err)
	}
	for range 2 {
		if err := k.plantWhole(t.Context(), seed, spec, images, discard); err != nil {
			t.Fatal(err)
		}
		if n := made(t, dir); n != 1 {
			t.Errorf("created %d times", n)
		}
	}
}

func TestOldSeeds(t *testing.T) {
	ages := "1209601 unused\n70 h\n5 a\n10 b\n20 c\n30 d\n40 e\n50 f\n1209600 i\n60 g\nnonsense\n"
	if got := oldSeeds(ages); !slices.Equal(got, []string{"h", "i", "unused"}) { // seven and the new one remain
		t.Errorf("%q", got)
	}
	if got := oldSeeds("1209600 a\n1209601 b\n"); !slices.Equal(got, []string{"b"}) {
		t.Errorf("%q", got)
	}
}

func TestArchivesOf(t *testing.T) {
	r, done, err := archivesOf(nil)
	defer done()
	if text, readErr := io.ReadAll(r); err != nil || readErr != nil || string(text) != "end\n" {
		t.Errorf("%q, %v, %v", text, err, readErr)
	}
}
