package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"homelab/lab"
	"homelab/lab/supply/archive"
	"homelab/lab/supply/charts/chartstest"
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
	web := chartstest.Repository(t, chartstest.ConfigMap("lamp", "1.0.0"), chartstest.ConfigMap("lamp", "1.2.0"), chartstest.ConfigMap("lamp", "2.0.0"))
	oci := chartstest.Registry(t)
	chartstest.Push(t, oci.Host()+"/team/shade", chartstest.ConfigMap("shade", "2.0.0"))
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
			e.Setenv("CHARTS", web.URL)
			e.Setenv("REGISTRY", oci.Host())
			return listen(e)
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, errors.New("unknown condition")
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "makebundle": makeBundle, "connections": connections},
	})
}

// listen counts the connections to the address in $LISTENER.
func listen(e *testscript.Env) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	count := new(atomic.Int64)
	e.Setenv("LISTENER", l.Addr().String())
	e.Values["connections"] = count
	e.Defer(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			count.Add(1)
			c.Close()
		}
	}()
	return nil
}

// connections N requires that there were N connections to $LISTENER.
func connections(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: connections N")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := ts.Value("connections").(*atomic.Int64).Load(); got != int64(want) {
		ts.Fatalf("%d connections, want %d", got, want)
	}
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

// makeBundle writes a bundle with one chart.
func makeBundle(ts *testscript.TestScript, _ bool, args []string) {
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zw)
	const text = "apiVersion: v2\nname: podinfo\nversion: 6.9.2\n"
	ts.Check(tw.WriteHeader(&tar.Header{Name: "podinfo/Chart.yaml", Mode: 0o644, Size: int64(len(text))}))
	_, err := tw.Write([]byte(text))
	ts.Check(errors.Join(err, tw.Close(), zw.Close()))
	file := ts.MkAbs("podinfo.tgz")
	ts.Check(os.WriteFile(file, buf.Bytes(), 0o644))
	digest := sha256.Sum256(buf.Bytes())
	goods := archive.Goods{
		Made:   archive.Made{By: "v9.9.9", At: time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC), From: "images built from source"},
		Charts: []lab.Chart{{Name: "podinfo", Version: "6.9.2", Digest: "sha256:" + hex.EncodeToString(digest[:]), Archive: file}},
	}
	ts.Check(archive.Save(context.Background(), ts.MkAbs(args[0]), goods, nil))
}
