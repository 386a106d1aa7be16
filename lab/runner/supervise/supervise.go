// Package supervise has the checks of pull requests run by a worker, and says on the forge what they found. It reads nothing of a request but its numbers and commits: the
// files go to the worker as the forge has packed them.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"time"
	"unicode"

	"homelab/lab"
	"homelab/lab/runner/job"
	"homelab/lab/runner/work"
)

// Request is an open pull request.
type Request struct {
	Number    int
	Title     string // untrusted
	Head      string // commit of its branch
	Base      string // commit of the branch that it is to be merged into
	MergeBase string // of both
}

// State is the state of a commit status.
type State string

// The states of a check.
const (
	Pending State = "pending"
	Success State = "success"
	Failure State = "failure" // what was asked for is wrong
	Error   State = "error"   // it cannot be said
)

// Status is a commit status.
type Status struct {
	Context     string // "lab/lint"
	State       State
	Description string // one line
}

// Reader is what the runner reads of the forge.
type Reader interface {
	// Requests returns the open requests, the one updated last first.
	Requests(ctx context.Context) ([]Request, error)
	// File returns a file of a commit; fs.ErrNotExist if it has none. One larger than most is an error.
	File(ctx context.Context, commit, name string, most int64) ([]byte, error)
	// Pack returns the trees of commits as git packs them.
	Pack(ctx context.Context, commits ...string) (io.ReadCloser, error)
}

// Writer is what the runner writes to the forge.
type Writer interface {
	// SetStatus sets a status of a commit.
	SetStatus(ctx context.Context, commit string, s Status) error
	// Comment writes the runner's comment on a request, or updates it if there is one: it begins with marker.
	Comment(ctx context.Context, number int, marker, body string) error
}

// Worker carries out orders.
type Worker interface {
	Do(ctx context.Context, o work.Order, pack io.Reader) ([]work.Result, error)
}

// Supervisor is the part of the runner that the forge knows.
type Supervisor struct {
	Reader   Reader
	Writer   Writer
	Worker   Worker
	Order    work.Order // what all orders have in common
	Describe Describe
	Log      *slog.Logger
	Every    time.Duration // between looks, if nothing calls
	Pause    time.Duration // before an order is given again

	done  map[int]string // requests that are checked: their key
	tries map[int]int    // of a key that failed
	moved map[int]string // key that tries are of
}

// Describe reads lab diff's JSON.
type Describe func(diff []byte) (Described, error)

// Described is what lab diff says.
type Described struct {
	Markdown string
	Summary  string
	Unknown  bool // something of the head cannot be rendered
}

const (
	maxRequests = 50 // that are looked after
	maxTries    = 3  // of a request, unless it changes
	farewell    = 5 * time.Second
)

// Run checks requests until the context ends: those that it finds first, and others whenever it is woken.
func (s *Supervisor) Run(ctx context.Context, wake <-chan struct{}) error {
	s.done, s.tries, s.moved = map[int]string{}, map[int]int{}, map[int]string{}
	again := time.NewTicker(s.Every)
	defer again.Stop()
	for {
		if err := s.Round(ctx); err != nil && ctx.Err() == nil {
			s.Log.Error("the forge", "error", plain(err.Error()))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		case <-again.C:
		}
	}
}

// Round checks the requests that have changed since they were checked.
func (s *Supervisor) Round(ctx context.Context) error {
	if s.done == nil {
		s.done, s.tries, s.moved = map[int]string{}, map[int]int{}, map[int]string{}
	}
	list, err := s.Reader.Requests(ctx)
	if err != nil {
		return err
	}
	if len(list) > maxRequests {
		s.Log.Warn("too many open requests", "open", len(list), "checked", maxRequests)
		list = list[:maxRequests]
	}
	open := map[int]bool{}
	var all error
	for _, r := range list {
		open[r.Number] = true
		key := r.Head + " " + r.Base + " " + r.MergeBase
		if s.done[r.Number] == key {
			continue
		}
		if s.moved[r.Number] != key {
			s.moved[r.Number], s.tries[r.Number] = key, 0
		}
		s.tries[r.Number]++
		err := s.check(ctx, r)
		if err == nil || s.tries[r.Number] >= maxTries && ctx.Err() == nil {
			s.done[r.Number] = key
		}
		if err != nil {
			all = errors.Join(all, fmt.Errorf("request %d: %w", r.Number, err))
		}
		if ctx.Err() != nil {
			return all
		}
	}
	for number := range s.done {
		if !open[number] {
			delete(s.done, number)
			delete(s.moved, number)
			delete(s.tries, number)
		}
	}
	return all
}

// setup is the status of what comes before the checks; it is set only if that fails, or has failed.
const setup = "lab/runner"

// check checks a request. Its error is the forge's: the request has no result then.
func (s *Supervisor) check(ctx context.Context, r Request) error {
	start := time.Now()
	log := s.Log.With("request", r.Number, "title", plain(r.Title), "head", r.Head)
	j, err := s.job(ctx, r)
	known := new(lab.Error)
	switch {
	case errors.As(err, &known):
		log.Info("checked", "check", "runner", "state", Error, "said", known.Message)
		return errors.Join(s.set(ctx, r, Status{setup, Error, known.Message}), s.Writer.Comment(ctx, r.Number, Marker, unusable(known)))
	case err != nil:
		return err
	}
	for _, c := range j.Checks {
		if err := s.set(ctx, r, Status{c.Context(), Pending, "lab is at it"}); err != nil {
			return err
		}
	}
	log.Info("started", "checks", len(j.Checks))
	results, err := s.run(ctx, r, j)
	if ctx.Err() != nil { // no status stays pending
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		for _, c := range j.Checks {
			err = errors.Join(err, s.set(ctx, r, Status{c.Context(), Error, "the runner was stopped; it checks again when it runs"}))
		}
		return err
	}
	of := make([]outcome, len(j.Checks))
	for i, c := range j.Checks {
		if i < len(results) {
			of[i] = s.outcome(results[i])
		} else {
			of[i] = outcome{check: c, state: Error, summary: plain(fmt.Sprint(err)), said: plain(fmt.Sprint(err))}
		}
		log.Info("checked", "check", c.String(), "state", of[i].state, "said", of[i].summary, "took", of[i].took)
	}
	var all error
	for _, o := range of {
		all = errors.Join(all, s.set(ctx, r, Status{o.check.Context(), o.state, o.summary}))
	}
	all = errors.Join(all, s.set(ctx, r, Status{setup, Success, fmt.Sprintf("%d checks in %s", len(of), time.Since(start).Round(100*time.Millisecond))}), s.Writer.Comment(ctx, r.Number, Marker, comment(r, of)))
	return all
}

func (s *Supervisor) set(ctx context.Context, r Request, status Status) error {
	const most = 140
	status.Description = lab.Clip(strings.Join(strings.Fields(plain(status.Description)), " "), most)
	return s.Writer.SetStatus(ctx, r.Head, status)
}

// job reads what is checked, from the branch that the request is to be merged into.
func (s *Supervisor) job(ctx context.Context, r Request) (job.Job, error) {
	if r.MergeBase == "" {
		return job.Job{}, &lab.Error{Code: "unrelated", Message: "the branches have no common history", Cure: "open the request from a branch of this repository"}
	}
	data, err := s.Reader.File(ctx, r.Base, job.File, job.MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return job.Default(), nil
	}
	if err != nil {
		return job.Job{}, fmt.Errorf("%s: %w", job.File, err)
	}
	return job.Read(data)
}

// run has a worker carry out the checks, and once more if it was lost.
func (s *Supervisor) run(ctx context.Context, r Request, j job.Job) (results []work.Result, err error) {
	order := s.Order
	order.Job, order.Base, order.Head = j, r.MergeBase, r.Head
	for try := range 2 {
		if try > 0 {
			s.Log.Warn("again", "request", r.Number, "error", plain(err.Error()))
			if err := lab.Sleep(ctx, s.Pause); err != nil {
				return nil, err
			}
		}
		if results, err = s.once(ctx, order); err == nil {
			return results, nil
		}
		if lost := new(work.Lost); !errors.As(err, &lost) {
			break
		}
	}
	return results, err
}

func (s *Supervisor) once(ctx context.Context, o work.Order) ([]work.Result, error) {
	pack, err := s.Reader.Pack(ctx, o.Base, o.Head)
	if err != nil {
		return nil, err
	}
	defer pack.Close()
	return s.Worker.Do(ctx, o, pack)
}

// plain returns a text without control characters, and without those that change the direction of what follows. Lines and tabs stay.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, text)
}
