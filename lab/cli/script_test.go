package cli

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the expected output")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"lab": func() {
			root := os.Getenv("LAB_TEST_ESTATE")
			os.Exit(int(Run(context.Background(), Env{Args: append([]string{"lab"}, os.Args[1:]...), Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Estate: os.DirFS(root)})))
		},
	})
}

// TestScripts runs every testdata/script/*.txtar: command lines without a container engine.
func TestScripts(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:           filepath.Join("testdata", "script"),
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			e.Setenv("LAB_TEST_ESTATE", root)
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, "cache"))
			e.Setenv("DOCKER_HOST", "unix://"+filepath.Join(e.WorkDir, "no-engine.sock"))
			e.Setenv("LAB_IMAGES", "source")
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, errors.New("unknown condition")
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits N COMMAND... runs a command that must exit with code N; its output is available to stdout and stderr.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%s: %v", args[1], err)
	}
	if got != want {
		ts.Fatalf("%v: exit %d, want %d", args[1:], got, want)
	}
}
