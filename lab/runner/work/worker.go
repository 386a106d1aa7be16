package work

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"homelab/lab/runner/job"
)

const (
	path    = "/checks"
	header  = "Lab-Order"
	refused = http.StatusUnprocessableEntity
)

// Worker runs checks, one order at a time.
type Worker struct {
	Program []string // lab's command for a check, with its first arguments
	Dir     string   // for files of orders; it has nothing else
	Env     []string // of the program: all of it
	Grace   time.Duration

	one sync.Mutex
}

// Serve answers on a Unix socket until the context ends. Whatever an earlier worker left is removed.
func (w *Worker) Serve(ctx context.Context, socket string) error {
	left, err := filepath.Glob(filepath.Join(w.Dir, "order-*"))
	if err == nil {
		for _, dir := range left {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	if err != nil {
		return err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	if err := os.Chmod(socket, 0o666); err != nil { // the supervisor has another uid; nobody else sees the volume
		return errors.Join(err, l.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+path, w.serve)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	defer w.one.Lock() // waits for the order at hand, which is cancelled
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return ctx.Err()
}

func (w *Worker) serve(rw http.ResponseWriter, r *http.Request) {
	w.one.Lock() // one whose caller has gone ends at once
	defer w.one.Unlock()
	var o Order
	err := json.Unmarshal([]byte(r.Header.Get(header)), &o)
	if err == nil {
		err = o.check()
	}
	if err != nil {
		http.Error(rw, err.Error(), refused)
		return
	}
	dir, err := os.MkdirTemp(w.Dir, "order-")
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	defer os.RemoveAll(dir)
	pack := filepath.Join(dir, "pack")
	if err := store(pack, r.Body); err != nil {
		http.Error(rw, err.Error(), refused)
		return
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), o.Job.Time, fmt.Errorf("the checks take longer than %s", o.Job.Time))
	defer cancel()
	out := json.NewEncoder(rw)
	for _, c := range o.Job.Checks {
		if err := out.Encode(w.run(ctx, o, c, dir)); err != nil { // the caller has gone
			return
		}
		_ = http.NewResponseController(rw).Flush()
	}
}

// store writes a pack of limited size.
func store(file string, from io.Reader) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(from, MaxPack+1))
	if n > MaxPack {
		err = errTooLarge
	}
	return errors.Join(err, f.Close())
}

var errTooLarge = fmt.Errorf("the files are larger than %d MiB when packed", MaxPack>>20)

// run runs one check.
func (w *Worker) run(ctx context.Context, o Order, c job.Check, dir string) Result {
	res := Result{Check: c, Exit: -1}
	if ctx.Err() != nil {
		res.Ended = context.Cause(ctx).Error()
		return res
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	home, err := os.MkdirTemp(dir, "home-")
	if err != nil {
		res.Ended = err.Error()
		return res
	}
	task, err := json.Marshal(Task{Order: o, Check: c, Pack: filepath.Join(dir, "pack")})
	if err != nil {
		res.Ended = err.Error()
		return res
	}
	cmd := exec.CommandContext(ctx, w.Program[0], append(slices.Clone(w.Program[1:]), string(task))...)
	cmd.Dir = home
	const soft = 90 // per cent of the limit, from which on the program collects its garbage
	cmd.Env = append([]string{"HOME=" + home, "TMPDIR=" + home, "XDG_STATE_HOME=" + home, fmt.Sprintf("GOMEMLIMIT=%dMiB", o.Job.Memory*soft/100)}, w.Env...)
	cmd.WaitDelay = w.Grace
	stdout := &bounded{most: MaxOutput, full: func() { end(fmt.Errorf("the check prints more than %d MiB", MaxOutput>>20)) }}
	stderr := &bounded{most: MaxSaid, full: func() {}}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	start := time.Now()
	if err := cmd.Start(); err != nil {
		res.Ended = err.Error()
		return res
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		watch(ctx, cmd.Process.Pid, o.Job.Memory, end)
	}()
	err = cmd.Wait()
	cause := context.Cause(ctx)
	end(nil)
	<-watched
	res.Took, res.Out, res.Said = time.Since(start).Round(time.Millisecond), stdout.buffer.Bytes(), stderr.buffer.String()
	var exit *exec.ExitError
	switch {
	case cause != nil:
		res.Ended, res.Out = cause.Error(), nil
	case errors.As(err, &exit) && exit.ExitCode() < 0:
		res.Ended = "the check ended by a signal: " + exit.String() // memory of the container
	case errors.As(err, &exit):
		res.Exit = exit.ExitCode()
	case err != nil:
		res.Ended = err.Error()
	default:
		res.Exit = 0
	}
	return res
}

// watch ends a process that has more memory than it may. The container's limit, which would end the worker, too, is above it.
func watch(ctx context.Context, pid, most int, end func(error)) {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	_ = os.WriteFile(filepath.Join(proc, "oom_score_adj"), []byte("1000"), 0o600) // the first to go
	const often = 50 * time.Millisecond
	again := time.NewTicker(often)
	defer again.Stop()
	for {
		text, err := os.ReadFile(filepath.Join(proc, "statm"))
		if err != nil { // it has ended, or this is not Linux
			return
		}
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			if pages, err := strconv.Atoi(fields[1]); err == nil && pages > most<<20/os.Getpagesize() {
				end(fmt.Errorf("the check needs more than %d MiB of memory", most))
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

// bounded keeps the beginning of what is written.
type bounded struct {
	buffer bytes.Buffer // not embedded: its ReadFrom has no bounds
	most   int
	full   func()
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := b.most - b.buffer.Len(); len(p) > room {
		b.buffer.Write(p[:room])
		b.full()
	} else {
		b.buffer.Write(p)
	}
	return len(p), nil
}
