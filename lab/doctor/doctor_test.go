package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"homelab/lab"
)

var update = flag.Bool("update", false, "write the golden files")

// TestReports reads machines from testdata/machines, one txtar each: machine.json, host files and the expected report.
func TestReports(t *testing.T) {
	files, err := filepath.Glob("testdata/machines/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no machines: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Setenv("DOCKER_HOST", "")
			t.Setenv("DOCKER_CONTEXT", "")
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			m := newMachine(t)
			want := map[string]string{}
			for _, f := range archive.Files {
				switch f.Name {
				case "machine.json":
					dec := json.NewDecoder(bytes.NewReader(f.Data))
					dec.DisallowUnknownFields()
					if err := dec.Decode(m); err != nil {
						t.Fatal(err)
					}
				case "report.txt", "report.json":
					want[f.Name] = string(f.Data)
				default:
					write(t, m.path(f.Name), string(f.Data))
					if err := os.Chmod(m.path(f.Name), 0o755); err != nil { // possibly the trimmed runtime
						t.Fatal(err)
					}
				}
			}
			r := m.doctor().Run(t.Context())
			got := map[string]string{"report.txt": text(r, m), "report.json": indented(t, r, m)}
			if *update {
				archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool { return strings.HasPrefix(f.Name, "report.") })
				for _, name := range []string{"report.txt", "report.json"} {
					if _, ok := want[name]; ok || name == "report.txt" {
						archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(got[name])})
					}
				}
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			for name := range want {
				if diff := cmp.Diff(want[name], got[name]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
			for _, c := range r.Checks {
				for _, line := range []string{c.Found, c.Cure} {
					if n := utf8.RuneCountInString(strings.ReplaceAll(line, m.dir, "")); n > 61 {
						t.Errorf("%d columns: %s", n, line)
					}
				}
			}
		})
	}
}

// text formats a report like a terminal, and lists changes to the engine.
func text(r Report, m *machine) string {
	var b strings.Builder
	var fixable []string
	for _, c := range r.Checks {
		symbol := map[Status]string{StatusOK: "✓", StatusWarn: "!", StatusFail: "✗", StatusSkip: "·"}[c.Status]
		fmt.Fprintf(&b, " %s %-15s %s\n", symbol, c.Title, c.Found)
		if c.Cure != "" {
			fmt.Fprintf(&b, "%19s%s\n", "", c.Cure)
		}
		if c.Fixable {
			fixable = append(fixable, c.ID)
		}
	}
	fmt.Fprintf(&b, "fixable: %s\n", strings.Join(fixable, ", "))
	fmt.Fprintf(&b, "summary: %s\n", r.Summary())
	fmt.Fprintf(&b, "traits: cgroup v1 %t, no oom adjust %t\n", r.Traits.CgroupV1, r.Traits.NoOOMAdjust)
	fmt.Fprintf(&b, "ran: %s\n", strings.Join(m.ran, ", "))
	fmt.Fprintf(&b, "error: %v\n", r.Err())
	return strings.ReplaceAll(b.String(), m.dir, "")
}

func indented(t *testing.T, r Report, m *machine) string {
	t.Helper()
	out, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(out), m.dir, "") + "\n"
}

// The document says of every kind of engine what the doctor says, and why.
func TestPlatformsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/platforms.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range platforms() {
		row := fmt.Sprintf("| %s | %s |", p.name, p.support)
		if !strings.Contains(string(doc), row) {
			t.Errorf("docs/platforms.md lacks %q", row)
		}
		if p.start != "" && !strings.Contains(p.start, "docker context") && !strings.Contains(string(doc), p.start) {
			t.Errorf("docs/platforms.md does not say how to start %s: %s", p.name, p.start)
		}
	}
}

// What leaves the selected engine depends on how it was selected.
func TestOtherEngine(t *testing.T) {
	for _, c := range []struct{ host, context, want string }{
		{"ssh://build", "", "unset DOCKER_HOST"}, {"", "build", "unset DOCKER_CONTEXT"}, {"", "", "docker context use default"},
	} {
		t.Setenv("DOCKER_HOST", c.host)
		t.Setenv("DOCKER_CONTEXT", c.context)
		if got := otherEngine(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestHangingEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		m.Error = "hangs"
		c := m.doctor().Run(t.Context()).Check(CheckDocker)
		if c.Status != StatusFail || c.Fixable || !strings.Contains(c.Found, "within 10s") {
			t.Errorf("%+v", c)
		}
	})
}

func TestReportErr(t *testing.T) {
	r := Report{Checks: []Check{
		{ID: CheckDocker, Title: "docker", Status: StatusOK},
		{ID: CheckPrivileged, Title: "privileged", Status: StatusFail, Found: "refused", Cure: "register", Fixable: true},
		{ID: CheckInotify, Title: "inotify", Status: StatusWarn, Found: "few", Fixable: true},
	}}
	var e *lab.Error
	if !errors.As(r.Err(), &e) || e.Code != "host_unfit" || e.Exit != lab.ExitFailed || !strings.Contains(e.Cure, "lab up --fix") {
		t.Fatalf("%#v", r.Err())
	}
	if diff := cmp.Diff([]string{"privileged: refused", "  register"}, e.Details); diff != "" {
		t.Error(diff)
	}
	r.Checks = append(r.Checks, Check{ID: CheckDisk, Title: "disk", Status: StatusFail, Found: "full", Cure: "make room"})
	if errors.As(r.Err(), &e); strings.Contains(e.Cure, "--fix") {
		t.Errorf("--fix does not make room: %s", e.Cure)
	}
	r.Checks[1].Status, r.Checks[3].Status = StatusOK, StatusWarn
	if err := r.Err(); err != nil {
		t.Errorf("warnings are not an error: %v", err)
	}
}
