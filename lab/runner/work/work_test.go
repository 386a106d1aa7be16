package work_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"homelab/lab/runner/job"
	"homelab/lab/runner/work"
)

// TestMain lets the test's program be the check, too.
func TestMain(m *testing.M) {
	if os.Getenv("LAB_TEST_CHECK") == "" {
		os.Exit(m.Run())
	}
	var task work.Task
	if err := json.Unmarshal([]byte(os.Args[len(os.Args)-1]), &task); err != nil {
		panic(err)
	}
	pack, err := os.ReadFile(task.Pack)
	if err != nil {
		panic(err)
	}
	switch string(pack) {
	case "loop":
		//lint:ignore SA5002 it spins until it is ended
		for {
		}
	case "memory":
		var all [][]byte
		for {
			//lint:ignore SA4010 it takes memory until it is ended
			all = append(all, bytes.Repeat([]byte("x"), 8<<20))
		}
	case "output":
		for {
			fmt.Println(strings.Repeat("x", 1<<20))
		}
	case "crash":
		panic("at the disco")
	case "environment":
		fmt.Println(strings.Join(os.Environ(), "\n"))
	default:
		fmt.Printf("%s of %s", task.Check, pack)
		fmt.Fprint(os.Stderr, "said")
	}
	if task.Check.Kind == job.Render {
		os.Exit(2)
	}
	os.Exit(0)
}

// worker starts a worker and returns a client for it, and what stops it.
func worker(t *testing.T) (work.Client, context.CancelFunc) {
	t.Helper()
	dir, err := os.MkdirTemp("", "work") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := &work.Worker{Program: []string{os.Args[0]}, Dir: dir, Env: []string{"LAB_TEST_CHECK=yes", "GOCOVERDIR=" + dir}, Grace: time.Second}
	socket, ended := filepath.Join(dir, "s"), make(chan error, 1)
	go func() { ended <- w.Serve(ctx, socket) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		left, err := filepath.Glob(filepath.Join(dir, "order-*"))
		if err != nil || len(left) > 0 {
			t.Errorf("left: %s, %v", left, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	for range 200 {
		if c, err := net.Dial("unix", socket); err == nil {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	return work.Client{Socket: socket, Slack: 10 * time.Second}, cancel
}

func order(limit time.Duration, checks ...job.Check) work.Order {
	return work.Order{Job: job.Job{Checks: checks, Time: limit, Memory: 256}, Base: strings.Repeat("a", 40), Head: strings.Repeat("b", 40), Lab: "demo"}
}

var lint, diff, render = job.Check{Kind: job.Lint}, job.Check{Kind: job.Diff}, job.Check{Kind: job.Render}

func TestDo(t *testing.T) {
	client, _ := worker(t)
	res, err := client.Do(t.Context(), order(time.Minute, lint, job.Check{Kind: job.Kustomize, Path: "a/b"}, render), strings.NewReader("files"))
	if err != nil || len(res) != 3 {
		t.Fatalf("%+v, %v", res, err)
	}
	for i, want := range []string{"lint of files", "kustomize a/b of files", "render of files"} {
		if string(res[i].Out) != want || res[i].Said != "said" || res[i].Ended != "" || (res[i].Exit == 2) != (i == 2) {
			t.Errorf("%+v, want %s", res[i], want)
		}
	}
}

// A check that exceeds a limit is ended, the next one runs, and the worker is as it was.
func TestLimits(t *testing.T) {
	client, _ := worker(t)
	for _, c := range []struct {
		pack, ended string
		limit       time.Duration
		all         bool
	}{
		{"loop", "the checks take longer than 1s", time.Second, true},
		{"memory", "the check needs more than 256 MiB of memory", time.Minute, false},
		{"output", "the check prints more than 8 MiB", time.Minute, false},
	} {
		t.Run(c.pack, func(t *testing.T) {
			res, err := client.Do(t.Context(), order(c.limit, lint, diff), strings.NewReader(c.pack))
			if err != nil || len(res) != 2 {
				t.Fatalf("%v, %v", res, err)
			}
			for _, r := range res {
				if r.Ended != c.ended || r.Exit != -1 || len(r.Out) > 0 {
					t.Errorf("%d bytes, exit %d, %q; want %q", len(r.Out), r.Exit, r.Ended, c.ended)
				}
			}
		})
	}
	if res, err := client.Do(t.Context(), order(time.Minute, lint), strings.NewReader("crash")); err != nil || res[0].Exit != 2 || !strings.Contains(res[0].Said, "at the disco") {
		t.Errorf("%+v, %v", res, err)
	}
	large := io.LimitReader(endless{}, work.MaxPack+2)
	if _, err := client.Do(t.Context(), order(time.Minute, lint), large); err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") {
		t.Errorf("a large pack: %v", err)
	}
	if res, err := client.Do(t.Context(), order(time.Minute, lint), strings.NewReader("files")); err != nil || res[0].Exit != 0 {
		t.Errorf("afterwards: %+v, %v", res, err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// A check has no environment but its own.
func TestEnvironment(t *testing.T) {
	t.Setenv("LAB_SECRET", "hidden")
	client, _ := worker(t)
	res, err := client.Do(t.Context(), order(time.Minute, lint), strings.NewReader("environment"))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(res[0].Out); strings.Contains(text, "hidden") || strings.Contains(text, "PATH=") || !strings.Contains(text, "GOMEMLIMIT=230MiB") {
		t.Error(text)
	}
}

// Orders that no supervisor gives are refused.
func TestRefused(t *testing.T) {
	client, _ := worker(t)
	for name, spoil := range map[string]func(*work.Order){
		"commit":  func(o *work.Order) { o.Head = "--upload-pack=x" },
		"name":    func(o *work.Order) { o.Lab = "-x" },
		"version": func(o *work.Order) { o.Version = "$(x)" },
		"time":    func(o *work.Order) { o.Job.Time = time.Hour },
		"memory":  func(o *work.Order) { o.Job.Memory = 9000 },
		"check":   func(o *work.Order) { o.Job.Checks = []job.Check{{Kind: "sh"}} },
		"none":    func(o *work.Order) { o.Job.Checks = nil },
	} {
		o := order(time.Minute, lint)
		spoil(&o)
		res, err := client.Do(t.Context(), o, strings.NewReader("files"))
		if lost := new(work.Lost); err == nil || errors.As(err, &lost) {
			t.Errorf("%s: %v, %v", name, res, err)
		}
	}
}

// A worker that ends during an order is lost, and so is one that is not there.
func TestLost(t *testing.T) {
	client, stop := worker(t)
	time.AfterFunc(500*time.Millisecond, stop)
	_, err := client.Do(t.Context(), order(time.Minute, lint), strings.NewReader("loop"))
	if lost := new(work.Lost); !errors.As(err, &lost) {
		t.Errorf("%v", err)
	}
	_, err = work.Client{Socket: filepath.Join(t.TempDir(), "none"), Slack: time.Second}.Do(t.Context(), order(time.Minute, lint), strings.NewReader(""))
	if lost := new(work.Lost); !errors.As(err, &lost) {
		t.Errorf("%v", err)
	}
}

// The caller's error is not the worker's fault.
func TestPackFails(t *testing.T) {
	client, _ := worker(t)
	broken := errors.New("the forge hung up")
	_, err := client.Do(t.Context(), order(time.Minute, lint), io.MultiReader(strings.NewReader("fi"), failing{broken}))
	if lost := new(work.Lost); !errors.Is(err, broken) || errors.As(err, &lost) {
		t.Errorf("%v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
