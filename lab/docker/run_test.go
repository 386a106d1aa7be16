package docker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"homelab/lab"
)

// slowEngine is a docker command whose engine continues what it was asked for when the command is killed: after a while it creates a container, which writes
// until it is removed. Files in $STATE: label, created, written; creating in $CREATING seconds; $REFUSES makes rm fail.
const slowEngine = `#!/bin/sh
cd "$STATE"
echo "$*" >>calls
case "$1" in
run)
	true
	echo "$4" >label
	(
		sleep "$CREATING"
		[ ! -e removed ] || exit
		touch created
		while [ -e created ]; do echo x >>written; sleep 0.01; done
	) >/dev/null 2>&1 &
	wait
	exit 137 ;;
ps) [ "$*" = "ps --all --quiet --filter label=$(cat label)" ] || exit 9; [ ! -e created ] || echo 42 ;;
rm)
	[ -z "$REFUSES" ] || { echo did not receive an exit event >&2; exit 1; }
	case "$*" in 'rm --force 42' | 'rm --force --volumes 42') rm created ;; *) exit 9 ;; esac ;;
esac
`

func newSlowEngine(t *testing.T, creating string) (*Docker, string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs sh")
	}
	dir := t.TempDir()
	program := filepath.Join(t.TempDir(), "docker")
	if err := os.WriteFile(program, []byte(slowEngine), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("STATE", dir)
	t.Setenv("CREATING", creating)
	t.Cleanup(func() { _ = os.Remove(filepath.Join(dir, "created")) })
	return &Docker{program: program}, dir
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// When a cancelled run returns, its container writes no more, no matter what the client was waiting for.
func TestCancelledRunEnds(t *testing.T) {
	for name, test := range map[string]struct {
		creating string
		running  bool // when the context ends
	}{
		"while it runs":       {"0", true},
		"while it is created": {"0.3", false},
	} {
		t.Run(name, func(t *testing.T) {
			d, dir := newSlowEngine(t, test.creating)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			go func() {
				for ctx.Err() == nil && (!exists(filepath.Join(dir, "label")) || test.running && !exists(filepath.Join(dir, "written"))) {
					select {
					case <-tick.C:
					case <-ctx.Done():
					}
				}
				cancel()
			}()
			_, err := d.Output(ctx, strings.NewReader(""), "run", "--rm", "image", "program")
			var de *Error
			if !errors.Is(err, context.Canceled) || !errors.As(err, &de) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
			written := filepath.Join(dir, "written")
			_ = os.Remove(written) // as a rollback does
			look, enough := time.NewTicker(10*time.Millisecond), time.After(500*time.Millisecond)
			defer look.Stop()
			for waiting := true; waiting; {
				if exists(filepath.Join(dir, "created")) || exists(written) {
					t.Fatal("the container runs on and writes")
				}
				select {
				case <-look.C:
				case <-enough:
					waiting = false
				}
			}
		})
	}
}

// A container that does not end is reported, with the command that ends it.
func TestCancelledRunDoesNotEnd(t *testing.T) {
	d, dir := newSlowEngine(t, "0")
	t.Setenv("REFUSES", "yes")
	d.patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := d.Output(ctx, nil, "run", "--rm", "image", "program")
	var e *lab.Error
	if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) || e.Message != "container 42, which lab started, does not end" {
		t.Fatalf("%v", err)
	}
	t.Setenv("REFUSES", "")
	command := strings.Fields(e.Cure)
	if _, err := d.Output(t.Context(), nil, command[1:]...); err != nil || command[0] != "docker" || exists(filepath.Join(dir, "created")) {
		t.Errorf("%s: %v", e.Cure, err)
	}
}

// Only the container of a `run --rm` ends with the context.
func TestOtherRunsAreNotMarked(t *testing.T) {
	program := filepath.Join(t.TempDir(), "docker")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$*\""), 0o755); err != nil {
		t.Fatal(err)
	}
	d := &Docker{program: program}
	for _, args := range []string{"run --detach image", "exec --rm x y", "ps"} {
		if out, err := d.Output(t.Context(), nil, strings.Fields(args)...); err != nil || strings.TrimSpace(string(out)) != args {
			t.Errorf("%q, %v", out, err)
		}
	}
}
