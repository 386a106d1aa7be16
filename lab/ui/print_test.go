package ui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"homelab/lab"
)

// printed returns the output of do on Out and Err, on terminals of 80 columns or in files.
func printed(terminal bool, do func(u *UI)) (out, err string) {
	var o, e bytes.Buffer
	do(New(Options{Out: &o, Err: &e, TTY: terminal, OutTTY: terminal}))
	return o.String(), e.String()
}

func TestSummary(t *testing.T) {
	out, narration := printed(false, func(u *UI) { u.Summary(summary()) })
	golden(t, "done.txt", out)
	if narration != "" {
		t.Errorf("the result is data, not narration: %s", narration)
	}
	out, _ = printed(true, func(u *UI) { u.Summary(summary()) })
	fits(t, out)
	golden(t, "done-terminal.txt", out)
}

func TestUpToDate(t *testing.T) {
	out, _ := printed(true, func(u *UI) { u.UpToDate("homelab", 4, 11, 1200*ms) })
	golden(t, "up-to-date.txt", out)
}

func TestErrors(t *testing.T) {
	for name, err := range map[string]error{
		"error-timeout":       timeoutError(),
		"error-broken-estate": brokenEstate(),
	} {
		for _, terminal := range []bool{false, true} {
			out, narration := printed(terminal, func(u *UI) { u.Error(err) })
			if out != "" {
				t.Errorf("an error for a user is narration, not data: %s", out)
			}
			file := name + ".txt"
			if terminal {
				fits(t, narration)
				file = name + "-terminal.txt"
			}
			golden(t, file, narration)
		}
	}
}

func TestErrorKinds(t *testing.T) {
	noEngine := &lab.Error{Code: "no_engine", Exit: lab.ExitFailed, Message: "no docker engine answers", Cure: "lab up --fix"}
	stopped := fmt.Errorf("cluster dev: %w", context.Canceled)
	for name, c := range map[string]struct {
		err           error
		exit          lab.Exit
		code, message string
		text          string
	}{
		"plain": {errors.New("disk is full"), 1, "failed", "disk is full", "error: disk is full\n"},
		"known": {noEngine, 1, "no_engine", "no docker engine answers", "error: no docker engine answers\nlab up --fix\n"},
		"wrapped": {
			fmt.Errorf("preflight: %w", noEngine), 1, "no_engine", "preflight: no docker engine answers",
			"error: preflight: no docker engine answers\nlab up --fix\n",
		},
		"cause": {
			&lab.Error{Message: "cannot read the estate", Err: fs.ErrPermission}, 1, "failed", "cannot read the estate: permission denied",
			"error: cannot read the estate: permission denied\n",
		},
		"several lines": {errors.New("helm:\n  - one\n  - two\n"), 1, "failed", "helm:\n  - one\n  - two\n", "error: helm:\n\n    - one\n    - two\n"},
		"interrupted":   {stopped, 130, "interrupted", "interrupted", "error: interrupted\n"},
		"interrupted with message": {
			&lab.Error{Exit: lab.ExitFailed, Code: "x", Message: "interrupted in cluster dev", Cure: "lab up continues from here", Err: context.Canceled},
			130, "interrupted", "interrupted in cluster dev: context canceled", "error: interrupted in cluster dev: context canceled\nlab up continues from here\n",
		},
		"two": {
			errors.Join(errors.New("a"), errors.New("b")), 1, "failed", "a; b", "error: a\n\nerror: b\n",
		},
		"one stopped the other": {errors.Join(stopped, noEngine), 1, "no_engine", "no docker engine answers", "error: no docker engine answers\nlab up --fix\n"},
		"all stopped":           {errors.Join(stopped, stopped), 130, "interrupted", "interrupted", "error: interrupted\n"},
		"timeout without code":  {&lab.Error{Exit: lab.ExitTimeout, Message: "late"}, 3, "timeout", "late", "error: late\n"},
		"problems alone": {
			lab.Problems{{Position: lab.Position{File: "a.yaml", Line: 1}, Message: "bad"}},
			2, "invalid", "1 problem",
			"error: 1 problem\n\n  a.yaml:1  bad\n",
		},
		"escape sequences": {errors.New("\x1b[2Jgone"), 1, "failed", "\x1b[2Jgone", "error: gone\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var exit lab.Exit
			_, text := printed(false, func(u *UI) { exit = u.Error(c.err) })
			if text != c.text || exit != c.exit {
				t.Errorf("exit %d, text %q, want %d, %q", exit, text, c.exit, c.text)
			}
			split := splitErrors(c.err)
			if body := errorResult(split).Error; body.Code != c.code || body.Message != c.message {
				t.Errorf("code %q, message %q, want %q, %q", body.Code, body.Message, c.code, c.message)
			}
		})
	}
	if exit := New(Options{}).Error(nil); exit != lab.ExitDone {
		t.Errorf("no error is exit %d", exit)
	}
}

func TestReport(t *testing.T) {
	out, _ := printed(false, func(u *UI) { u.Report(doctorRows()) })
	golden(t, "doctor.txt", out)
	out, _ = printed(true, func(u *UI) { u.Report(doctorRows()) })
	fits(t, out)
	golden(t, "doctor-terminal.txt", out)
	out, _ = printed(false, func(u *UI) { u.Report(doctorRows()[:1]) })
	if !strings.HasSuffix(out, "\nready\n") {
		t.Errorf("no failures: got %s", out)
	}
}

func status() Status {
	apps := applications()
	apps[7].Sync, apps[7].Health, apps[7].Message = "Synced", "Degraded", "deployment podinfo: 0 of 2 ready, ImagePullBackOff"
	apps[5].Sync, apps[5].Health = "OutOfSync", "Progressing"
	s := Status{
		Lab: "homelab", Engine: "argocd", Revision: "3f2c1d90a7b64e5f8c9d0e1f2a3b4c5d6e7f8091", Clusters: StatusClusters(clusters()), Applications: apps,
		Endpoints: []Endpoint{{"argocd", "http://127.0.0.1:8080", "admin", "lab creds argocd"}, {"forge", "http://127.0.0.1:3000", "lab", "lab creds forge"}},
	}
	s.Clusters[3].Ready, s.Clusters[3].Kubernetes = false, ""
	return s
}

func TestStatus(t *testing.T) {
	out, _ := printed(true, func(u *UI) {
		if err := u.Status(status()); err != nil {
			t.Error(err)
		}
	})
	fits(t, out)
	golden(t, "status.txt", out)
	out, _ = printed(false, func(u *UI) {
		if err := u.Status(Status{Lab: "homelab"}); err != nil {
			t.Error(err)
		}
	})
	if !strings.Contains(out, "lab homelab\n") {
		t.Errorf("lab down: %s", out)
	}
}

func TestMatrixWraps(t *testing.T) {
	s := summary()
	for _, addon := range []string{"cert-manager", "external-dns", "ingress-nginx", "kube-prometheus-stack"} {
		s.Applications = append(s.Applications, lab.Application{
			Addon: addon, Cluster: "prod", Version: "1.2.3", Sync: "OutOfSync", Health: "Missing",
		})
	}
	out, _ := printed(true, func(u *UI) { u.Summary(s) })
	fits(t, out)
	golden(t, "many-addons.txt", out)
}

// Applications of one addon share a cell; disabled ones count only if there are no others.
func TestCell(t *testing.T) {
	well := lab.Application{Version: "1.0.0", Sync: "Synced", Health: "Healthy"}
	waiting := lab.Application{Version: "1.0.0", Sync: "OutOfSync", Health: "Progressing"}
	broken := lab.Application{Version: "1.0.0", Sync: "Synced", Health: "Degraded"}
	out := lab.Application{Version: "1.0.0", Sync: "Unknown", Health: "Missing", LeftOut: "it cannot be had"}
	for want, apps := range map[string][]lab.Application{
		"":         nil,
		"1.0.0 ✓":  {well},
		"1.0.0 …":  {waiting},
		"1.0.0 ✗":  {broken},
		"2 of 2 ✓": {well, well},
		"1 of 2 …": {well, waiting},
		"1 of 3 ✗": {broken, well, waiting},
		"left out": {out, out},
	} {
		if got := cell(apps); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := cell([]lab.Application{out, well}); got != "1.0.0 ✓" {
		t.Errorf("cell with a left-out application = %q", got)
	}
}

func TestTable(t *testing.T) {
	table := Table{
		Head: []string{"NAME", "SIZE", "MESSAGE"},
		Rows: [][]string{
			{"argocd", "412 MB", "short"}, {"記憶", "1.2 GB", "a subject\nof two lines " + strings.Repeat("and long ", 20)}, {"x"},
		},
		Right: []int{1},
	}
	out, _ := printed(true, func(u *UI) { u.Table(table) })
	fits(t, out)
	golden(t, "table.txt", out)
	out, _ = printed(false, func(u *UI) { u.Table(table) })
	if strings.Contains(out, "…") {
		t.Errorf("table in a file is truncated: %s", out)
	}
}

func TestColor(t *testing.T) {
	everything := func(u *UI) {
		u.Begin(header, upSteps())
		u.Event(halfWay()[1])
		u.Summary(summary())
		u.Report(doctorRows())
		u.Error(brokenEstate())
	}
	for _, color := range []bool{false, true} {
		var o, e bytes.Buffer
		everything(New(Options{Out: &o, Err: &e, Color: color, OutColor: !color}))
		if got := strings.Contains(e.String(), "\x1b["); got != color {
			t.Errorf("colour on stderr %v, want %v", got, color)
		}
		if got := strings.Contains(o.String(), "\x1b["); got == color {
			t.Errorf("colour on stdout %v, want %v", got, !color)
		}
		var plainOut, plainErr bytes.Buffer
		everything(New(Options{Out: &plainOut, Err: &plainErr, Clock: func() time.Time { return time.Time{} }}))
		if got := escapes.ReplaceAllString(o.String(), ""); got != plainOut.String() {
			t.Errorf("colour moves text:\n%s\nwithout:\n%s", got, plainOut.String())
		}
	}
}

// A snapshot with missing images is marked, with or without metadata.
func TestSnapshots(t *testing.T) {
	out, _ := printed(true, func(u *UI) {
		if err := u.Snapshots(SnapshotListResult{Lab: "demo", Snapshots: []Snapshot{
			{Name: "ready", Taken: "yesterday", Clusters: []string{"dev", "hub"}, Bytes: 120_586_240},
			{Name: "pruned", Taken: "yesterday", Clusters: []string{"dev", "hub"}, Bytes: 120_586_240, Pruned: []string{"one"}},
			{Name: "unreadable", Pruned: []string{"one"}},
		}}, "lab snapshot save"); err != nil {
			t.Error(err)
		}
	})
	fits(t, out)
	golden(t, "snapshots.txt", out)
}
