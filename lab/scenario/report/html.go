package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/scenario"
)

//go:embed page.html.tmpl
var pageText string

// HTML writes a result as one self-contained page, without scripts.
func HTML(w io.Writer, r *scenario.Result) error {
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := t.Execute(&b, newPage(r)); err != nil {
		return err
	}
	_, err = io.WriteString(w, printable(b.String()))
	return err
}

// page is the template's data; the template escapes all text.
type page struct {
	Name, Title, Teaches string
	Verdict, Symbol      string
	Good                 bool
	Facts                []fact
	Reason               string
	Left                 []string
	Measures             []measure
	Steps                []step
	Markers              []marker
	Ticks                []tick
	Groups               []group
}

type fact struct{ Name, Text string }

type measure struct{ Took, Name, From string }

type step struct {
	Number                   int
	Title, Verb, Class, Sign string
	Verdict, Took            string
	Did, Error               string
	Expected, Seen           string
	Notes                    []string
	Evidence                 []evidence
	Played                   bool
}

// evidence is what was around a failed step's subjects.
type evidence struct {
	Title string
	Count int
	Text  string
}

// marker marks the start of steps on the time axis. Steps close to one another share one.
type marker struct {
	Left, Text, Title string
	Failed            bool
}

// tick is a label of the time axis.
type tick struct{ Left, Text string }

// group holds the lanes of a cluster.
type group struct {
	Name  string
	Lanes []lane
}

type lane struct {
	Name   string
	Spans  []span
	Events []event
	Words  []fact // text alternative: time and state
}

type span struct{ Left, Width, Class, Text string }

type event struct{ Left, Text string }

func newPage(r *scenario.Result) page {
	p := page{
		Name: r.Scenario, Title: r.Title, Teaches: r.Teaches, Verdict: string(r.Verdict), Symbol: sign(r.Verdict), Good: r.Verdict == scenario.Passed,
		Reason: r.Reason, Left: r.Left,
		Facts: []fact{{"lab", r.Lab}, {"engine", string(r.Engine)}, {"played", r.Began.UTC().Format("2006-01-02 15:04:05 UTC")}, {"took", lab.Duration(r.Took)}},
	}
	for _, m := range r.Measures {
		p.Measures = append(p.Measures, measure{precise(m.Took), m.Name, m.From})
	}
	total := max(r.Took, time.Millisecond)
	for _, s := range r.Steps {
		p.Steps = append(p.Steps, newStep(s))
	}
	p.Markers = markers(r.Steps, total)
	p.Ticks = ticks(total)
	p.Groups = groups(r, total)
	return p
}

func newStep(s scenario.StepResult) step {
	out := step{
		Number: s.Number, Title: s.Title, Verb: s.Verb, Class: class(s.Verdict), Sign: sign(s.Verdict), Verdict: string(s.Verdict), Did: s.Did, Error: s.Error,
	}
	if s.Verdict != scenario.NotPlayed {
		out.Took, out.Played = lab.Duration(s.Took), true
	}
	if u := s.Unmet; u != nil {
		out.Expected, out.Seen, out.Notes = u.Expected, lastSeen(u), u.Notes
	}
	for _, e := range s.Evidence {
		out.Evidence = append(out.Evidence, evidence{titleOf(e), len(e.Lines), strings.Join(e.Lines, "\n")})
	}
	return out
}

func titleOf(e scenario.Evidence) string {
	return fmt.Sprintf("%s: %s in namespace %s", e.Cluster, e.Source, e.Namespace)
}

func markers(steps []scenario.StepResult, total time.Duration) []marker {
	const near = 0.045 // share of the axis: the width of two numbers
	var list []marker
	var first scenario.StepResult
	for _, s := range steps {
		switch {
		case s.Verdict == scenario.NotPlayed:
			continue
		case len(list) > 0 && (s.Began-first.Began).Seconds() < near*total.Seconds():
			m := &list[len(list)-1]
			m.Text, m.Title, m.Failed = fmt.Sprintf("%d–%d", first.Number, s.Number), m.Title+"; "+s.Title, m.Failed || class(s.Verdict) == "bad"
		default:
			first = s
			list = append(list, marker{percent(s.Began, total), strconv.Itoa(s.Number), s.Title, class(s.Verdict) == "bad"})
		}
	}
	return list
}

func class(v scenario.Verdict) string {
	switch v {
	case scenario.Passed:
		return "good"
	case scenario.NotPlayed, scenario.Skipped:
		return "none"
	}
	return "bad"
}

func sign(v scenario.Verdict) string {
	switch v {
	case scenario.Passed:
		return "✓"
	case scenario.NotPlayed, scenario.Skipped:
		return "·"
	}
	return "✗"
}

// precise formats a duration in tenths of a second.
func precise(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.2fs", d.Seconds())
	}
	return lab.Duration(d)
}

func percent(at, total time.Duration) string {
	return fmt.Sprintf("%.2f", min(100, max(0, 100*at.Seconds()/total.Seconds())))
}

// ticks returns at most eight round points in time.
func ticks(total time.Duration) []tick {
	const most = 8
	every := time.Second
	for _, round := range []time.Duration{
		100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second,
		10 * time.Second, 20 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute,
	} {
		if every = round; total/round <= most {
			break
		}
	}
	var list []tick
	for at := time.Duration(0); at <= total && len(list) < 200; at += every {
		text := fmt.Sprintf("%gs", math.Round(at.Seconds()*10)/10)
		if at >= time.Minute {
			text = strings.TrimSuffix(fmt.Sprintf("%dm %ds", int(at.Minutes()), int(at.Seconds())%60), " 0s")
		}
		list = append(list, tick{percent(at, total), text})
	}
	return list
}

// groups returns the lanes by cluster, the forge first.
func groups(r *scenario.Result, total time.Duration) []group {
	var list []group
	find := func(name string) *group {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
		list = append(list, group{Name: name})
		return &list[len(list)-1]
	}
	byLane := map[scenario.Lane][]scenario.Mark{}
	var order []scenario.Lane
	for _, m := range r.Marks {
		if _, ok := byLane[m.Lane]; !ok {
			order = append(order, m.Lane)
		}
		byLane[m.Lane] = append(byLane[m.Lane], m)
	}
	for _, l := range order {
		// Objects stay, even without events: the story watches them, so that nothing happened matters.
		if dull(byLane[l]) && strings.HasPrefix(l.Name, "application ") {
			continue
		}
		name := l.Cluster
		if name == "" {
			name = "forge"
		}
		g := find(name)
		g.Lanes = append(g.Lanes, newLane(l.Name, byLane[l], total))
	}
	slices.SortStableFunc(list, func(a, b group) int { return rank(a) - rank(b) })
	return list
}

func rank(g group) int {
	if g.Name == "forge" {
		return 0
	}
	return 1
}

// dull reports whether a lane has no changes.
func dull(marks []scenario.Mark) bool {
	texts := map[string]bool{}
	for _, m := range marks {
		texts[m.Text] = true
		if m.State == "event" {
			return false
		}
	}
	return len(texts) <= 1
}

func newLane(name string, marks []scenario.Mark, total time.Duration) lane {
	l := lane{Name: name}
	var states []scenario.Mark
	for _, m := range marks {
		l.Words = append(l.Words, fact{lab.Duration(m.At), m.Text})
		if m.State == "event" {
			l.Events = append(l.Events, event{percent(m.At, total), m.Text})
		} else {
			states = append(states, m)
		}
	}
	for i, m := range states {
		end := total
		if i+1 < len(states) {
			end = states[i+1].At
		}
		if end < m.At {
			continue
		}
		l.Spans = append(l.Spans, span{Left: percent(m.At, total), Width: percent(end-m.At, total), Class: m.State, Text: m.Text})
	}
	return l
}
