package supervise_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"homelab/lab/runner/job"
	"homelab/lab/runner/supervise"
	"homelab/lab/runner/work"
)

// forge is one in memory.
type forge struct {
	mu       sync.Mutex // of requests
	requests []supervise.Request
	files    map[string]string // "COMMIT NAME"
	statuses []string          // "COMMIT lab/lint pending: text"
	comments map[int]string
	broken   error
}

func (f *forge) Requests(context.Context) ([]supervise.Request, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests), f.broken
}

// push moves the branch of the first request while the runner looks.
func (f *forge) push(commit string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests[0].Head = commit
}

func (f *forge) File(_ context.Context, commit, name string, _ int64) ([]byte, error) {
	if text, ok := f.files[commit+" "+name]; ok {
		return []byte(text), nil
	}
	return nil, fs.ErrNotExist
}

func (f *forge) Pack(_ context.Context, commits ...string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(strings.Join(commits, " "))), f.broken
}

func (f *forge) SetStatus(_ context.Context, commit string, s supervise.Status) error {
	f.statuses = append(f.statuses, fmt.Sprintf("%s %s %s: %s", commit, s.Context, s.State, s.Description))
	return f.broken
}

func (f *forge) Comment(_ context.Context, number int, marker, body string) error {
	if !strings.HasPrefix(body, marker) {
		return errors.New("a comment without its marker")
	}
	f.comments[number] = body
	return f.broken
}

// last returns the last status of each context.
func (f *forge) last() map[string]string {
	last := map[string]string{}
	for _, s := range f.statuses {
		_, s, _ = strings.Cut(s, " ")
		name, said, _ := strings.Cut(s, " ")
		last[name] = said
	}
	return last
}

// hand is a worker.
type hand struct {
	orders []work.Order
	packs  []string
	answer func(work.Order, int) ([]work.Result, error)
}

func (h *hand) Do(_ context.Context, o work.Order, pack io.Reader) ([]work.Result, error) {
	text, err := io.ReadAll(pack)
	if err != nil {
		return nil, err
	}
	h.orders, h.packs = append(h.orders, o), append(h.packs, string(text))
	return h.answer(o, len(h.orders))
}

const clean = `{"runs": [{"results": [{"ruleId": "floating-image", "level": "warning", "message": {"text": "web:latest @all <b>"}}]}]}`

func well(o work.Order, _ int) (list []work.Result, err error) {
	for _, c := range o.Job.Checks {
		r := work.Result{Check: c, Out: []byte("12 objects")}
		switch c.Kind {
		case job.Lint:
			r.Out = []byte(clean)
		case job.Diff:
			r.Out = []byte("differs")
		}
		list = append(list, r)
	}
	return list, nil
}

func describe(diff []byte) (supervise.Described, error) {
	switch string(diff) {
	case "differs":
		return supervise.Described{Markdown: "### lab diff\n\ndiffers\n", Summary: "1 change"}, nil
	case "unknown":
		return supervise.Described{Markdown: "### lab diff\n\nnot compared\n", Summary: "unknown", Unknown: true}, nil
	}
	return supervise.Described{}, errors.New("no JSON")
}

var request = supervise.Request{Number: 7, Title: "a\x1b[2Jb \u202egnp", Head: "head", Base: "base", MergeBase: "merge"}

func scene(t *testing.T) (*supervise.Supervisor, *forge, *hand, *bytes.Buffer) {
	t.Helper()
	f, h, log := &forge{requests: []supervise.Request{request}, files: map[string]string{}, comments: map[int]string{}}, &hand{answer: well}, &bytes.Buffer{}
	return &supervise.Supervisor{
		Reader: f, Writer: f, Worker: h, Order: work.Order{Lab: "demo"}, Describe: describe, Log: slog.New(slog.NewJSONHandler(log, nil)), Every: time.Minute, Pause: time.Second,
	}, f, h, log
}

func TestRound(t *testing.T) {
	s, f, h, log := scene(t)
	if err := s.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"head lab/lint pending: lab is at it", "head lab/diff pending: lab is at it", "head lab/lint success: errors: 0, warnings: 1", "head lab/diff success: 1 change",
	}
	if len(f.statuses) != 5 || !slices.Equal(f.statuses[:4], want) || !strings.HasPrefix(f.statuses[4], "head lab/runner success: 2 checks in ") {
		t.Errorf("statuses\n%s", strings.Join(f.statuses, "\n"))
	}
	for _, part := range []string{supervise.Marker, "### lab diff\n\ndiffers", "errors: 0, warnings: 1", "` web:latest @all <b> `", "of head"} {
		if !strings.Contains(f.comments[7], part) {
			t.Errorf("no %q in\n%s", part, f.comments[7])
		}
	}
	if h.packs[0] != "merge head" || h.orders[0].Base != "merge" || h.orders[0].Head != "head" || h.orders[0].Lab != "demo" {
		t.Errorf("order %+v with %q", h.orders[0], h.packs[0])
	}
	if strings.ContainsAny(log.String(), "\x1b\u202e") || !strings.Contains(log.String(), `"title":"a[2Jb gnp"`) {
		t.Error(log.String())
	}

	// Nothing has changed: nothing is asked. Either branch moves: it is checked again.
	for i, change := range []func(*supervise.Request){func(*supervise.Request) {}, func(r *supervise.Request) { r.Head = "head2" }, func(r *supervise.Request) { r.Base = "base2" }} {
		change(&f.requests[0])
		if err := s.Round(t.Context()); err != nil || len(h.orders) != 1+i {
			t.Errorf("change %d: %d orders, %v", i, len(h.orders), err)
		}
	}
}

// An unknown difference is not a success, and the comment says what is unknown.
func TestUnknown(t *testing.T) {
	s, f, h, _ := scene(t)
	h.answer = func(o work.Order, n int) ([]work.Result, error) {
		list, err := well(o, n)
		list[1].Out = []byte("unknown")
		return list, err
	}
	if err := s.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if last := f.last()["lab/diff"]; last != "error: unknown" || !strings.Contains(f.comments[7], "### lab diff\n\nnot compared\n") {
		t.Errorf("%q\n%s", last, f.comments[7])
	}
}

// What is checked is what the base branch says.
func TestJob(t *testing.T) {
	s, f, h, _ := scene(t)
	f.files["base "+job.File] = "checks: [render, {kustomize: apps/web}]\nlimits: {time: 30s}\n"
	f.files["head "+job.File] = "checks: [{run: xmrig}]\n"
	if err := s.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := h.orders[0].Job; got.Time != 30*time.Second || len(got.Checks) != 2 {
		t.Errorf("%+v", got)
	}
	if last := f.last(); last["lab/render"] != "success: 12 objects" || last["lab/kustomize"] == "" {
		t.Errorf("%q", last)
	}

	f.files["base3 "+job.File] = "checks: [{run: xmrig}]\n"
	f.requests[0].Base = "base3"
	if err := s.Round(t.Context()); err != nil || len(h.orders) != 1 {
		t.Errorf("%d orders, %v", len(h.orders), err)
	}
	if last := f.last()["lab/runner"]; last != "error: .lab/runner.yaml of the base branch does not say what to check" {
		t.Error(last)
	}
	if text := f.comments[7]; !strings.Contains(text, "```\n.lab/runner.yaml of the base branch does not say what to check\n.lab/runner.yaml:1:11: checks[0] cannot have \"run\"") {
		t.Error(text)
	}
}

// Whatever a worker answers, the comment has no mention, HTML or control character outside of code, and no status stays pending.
func TestHostileAnswers(t *testing.T) {
	const nasty = "```\n@all <img src=x> \x1b[2J\u202e\x00 [x](javascript:x)\n"
	for name, answer := range map[string]func(work.Order, int) ([]work.Result, error){
		"said": func(o work.Order, _ int) (list []work.Result, err error) {
			for _, c := range o.Job.Checks {
				list = append(list, work.Result{Check: c, Exit: 2, Said: nasty, Out: []byte(nasty)})
			}
			return list, nil
		},
		"ended": func(o work.Order, _ int) (list []work.Result, err error) {
			for _, c := range o.Job.Checks {
				list = append(list, work.Result{Check: c, Exit: -1, Ended: nasty, Out: []byte(nasty)})
			}
			return list, nil
		},
		"well": func(o work.Order, _ int) (list []work.Result, err error) {
			for _, c := range o.Job.Checks {
				list = append(list, work.Result{Check: c, Out: []byte(nasty)})
			}
			return list, nil
		},
		"half": func(o work.Order, n int) ([]work.Result, error) {
			list, err := well(o, n)
			return list[:1], errors.Join(err, &work.Lost{Err: errors.New(nasty)})
		},
		"fails": func(work.Order, int) ([]work.Result, error) { return nil, errors.New(nasty) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, f, _, _ := scene(t)
				f.files["base "+job.File] = "checks: [lint, diff, render]\n"
				s.Worker.(*hand).answer = answer
				if err := s.Round(t.Context()); err != nil {
					t.Fatal(err)
				}
				for context, said := range f.last() {
					if strings.HasPrefix(said, "pending") || strings.ContainsAny(said, "\x1b\u202e\x00\n") || len(said) > 200 {
						t.Errorf("%s: %q", context, said)
					}
				}
				text := f.comments[7]
				if strings.ContainsAny(text, "\x1b\u202e\x00") {
					t.Errorf("control characters in %q", text)
				}
				if prose := outside(text); strings.ContainsAny(strings.ReplaceAll(prose, supervise.Marker, ""), "@<[") {
					t.Errorf("%q is outside of code in\n%s", prose, text)
				}
			})
		})
	}
}

// outside returns what is in no fenced block and in no span of code.
func outside(text string) string {
	var out []string
	fence := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		ticks := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		switch {
		case fence == "" && len(ticks) >= 3:
			fence = ticks
		case fence != "" && line == fence:
			fence = ""
		case fence == "":
			out = append(out, spans(line))
		}
	}
	return strings.Join(out, "\n")
}

func spans(line string) string {
	before, rest, found := strings.Cut(line, "`")
	if !found {
		return line
	}
	ticks := "`" + rest[:len(rest)-len(strings.TrimLeft(rest, "`"))]
	_, after, _ := strings.Cut(rest[len(ticks)-1:], ticks)
	return before + spans(after)
}

// An order is given again to a worker that was lost; if that is lost, too, the checks are in error.
func TestLostWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f, h, _ := scene(t)
		h.answer = func(o work.Order, n int) ([]work.Result, error) {
			if n == 1 {
				return nil, &work.Lost{Err: io.ErrUnexpectedEOF}
			}
			return well(o, n)
		}
		if err := s.Round(t.Context()); err != nil || len(h.orders) != 2 || !strings.HasPrefix(f.last()["lab/diff"], "success") {
			t.Errorf("%d orders, %v, %q", len(h.orders), err, f.last())
		}
		f.requests[0].Head = "head2"
		h.answer = func(work.Order, int) ([]work.Result, error) { return nil, &work.Lost{Err: io.ErrUnexpectedEOF} }
		if err := s.Round(t.Context()); err != nil || len(h.orders) != 4 || f.last()["lab/diff"] != "error: the worker was lost: unexpected EOF" {
			t.Errorf("%d orders, %v, %q", len(h.orders), err, f.last())
		}
	})
}

// A forge that fails is asked again, but not for ever.
func TestBrokenForge(t *testing.T) {
	s, f, h, _ := scene(t)
	f.broken = errors.New("no")
	if err := s.Round(t.Context()); err == nil {
		t.Error("no error")
	}
	f.broken = nil
	h.answer = func(o work.Order, n int) ([]work.Result, error) {
		f.broken = errors.New("it hung up")
		return well(o, n)
	}
	for i := range 5 {
		f.broken = nil
		if err := s.Round(t.Context()); (err == nil) != (i > 2) {
			t.Errorf("round %d: %v", i, err)
		}
	}
	if len(h.orders) != 3 {
		t.Errorf("%d orders", len(h.orders))
	}
}

// A runner that is stopped leaves no status pending.
func TestStopped(t *testing.T) {
	s, f, h, _ := scene(t)
	ctx, cancel := context.WithCancel(t.Context())
	h.answer = func(work.Order, int) ([]work.Result, error) { cancel(); return nil, ctx.Err() }
	if err := s.Run(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for context, said := range f.last() {
		if said != "error: the runner was stopped; it checks again when it runs" {
			t.Errorf("%s: %s", context, said)
		}
	}
}

// A call of the forge wakes the runner, which looks without one, too.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f, h, _ := scene(t)
		ctx, cancel := context.WithCancel(t.Context())
		wake, ended := make(chan struct{}, 1), make(chan error, 1)
		go func() { ended <- s.Run(ctx, wake) }()
		synctest.Wait()
		f.push("head2")
		wake <- struct{}{}
		synctest.Wait()
		f.push("head3")
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || len(h.orders) != 3 {
			t.Errorf("%d orders, %v", len(h.orders), err)
		}
	})
}

// Requests without a common history have no checks.
func TestUnrelated(t *testing.T) {
	s, f, h, _ := scene(t)
	f.requests[0].MergeBase = ""
	if err := s.Round(t.Context()); err != nil || len(h.orders) != 0 || f.last()["lab/runner"] != "error: the branches have no common history" {
		t.Errorf("%v, %q", err, f.last())
	}
}

// Only calls that the forge has signed wake the runner.
func TestHook(t *testing.T) {
	hook, wake := supervise.Hook("secret")
	call := func(body, signed string) int {
		r := httptest.NewRequest(http.MethodPost, supervise.HookPath, strings.NewReader(body))
		r.Header.Set("X-Gitea-Signature", signed)
		w := httptest.NewRecorder()
		hook.ServeHTTP(w, r)
		return w.Code
	}
	const signed = "dd2a63a1dd1ac0c70b3f6c8ee4ea2c86edd8bcfb4a3ec17f3ea7d3e1c8a9c4f3"
	for _, wrong := range []string{"", "zz", signed, strings.Repeat("0", 64)} {
		if code := call(`{}`, wrong); code != http.StatusUnauthorized || len(wake) > 0 {
			t.Errorf("%q: %d", wrong, code)
		}
	}
	right := hmacOf("secret", `{"a": 1}`)
	for range 3 { // further calls change nothing
		if code := call(`{"a": 1}`, right); code != http.StatusOK || len(wake) != 1 {
			t.Errorf("%d, %d", code, len(wake))
		}
	}
	<-wake
	if code := call(strings.Repeat("x", 9<<20), right); code != http.StatusUnauthorized || len(wake) > 0 {
		t.Errorf("a large call: %d", code)
	}
	open, _ := supervise.Hook("")
	r, w := httptest.NewRequest(http.MethodPost, supervise.HookPath, strings.NewReader("x")), httptest.NewRecorder()
	r.Header.Set("X-Gitea-Signature", hmacOf("", "x"))
	if open.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
		t.Errorf("without a secret: %d", w.Code)
	}
}
