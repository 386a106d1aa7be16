package verb

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"homelab/lab/scenario"
)

// expect waits until all its checks are met at the same time.
type expect struct {
	check  `yaml:",inline"`
	That   []check       `yaml:"that" doc:"several expectations that must be met at the same time"`
	Within time.Duration `yaml:"within" max:"30m" doc:"how fast it must be: a deadline, whatever the machine does meanwhile"`
	For    time.Duration `yaml:"for" max:"10m" doc:"how long it must stay met"`
	Since  string        `yaml:"since" doc:"id of an earlier step: within counts from its start, and the time since is reported"`

	Patience time.Duration `yaml:"patience" max:"10m" doc:"without within: how long nothing may move; five times that is the limit; default 30s"`
}

// check is an expectation about one subject.
type check struct {
	Application *scenario.ApplicationRef `yaml:"application" doc:"the application of an addon on a cluster"`
	Sync        string                   `yaml:"sync" enum:"synced,out-of-sync,unknown" doc:"of an application: compared with Git"`
	Health      string                   `yaml:"health" enum:"healthy,progressing,degraded,missing,suspended,unknown" doc:"of an application"`
	Revision    string                   `yaml:"revision" doc:"of an application: the compared Git commit"`
	Version     string                   `yaml:"version" doc:"of an application: version of its chart"`
	Heals       *bool                    `yaml:"heals" doc:"of an application: whether drift is reverted"`

	Object *scenario.ObjectRef `yaml:"object" doc:"an object in a cluster"`
	Has    conditions          `yaml:"has" doc:"of an object: path -> value, or one of is, not, matches, exists, atLeast, atMost; or a fragment of the object"`

	Event *event `yaml:"event" doc:"a Kubernetes event after the last change"`

	Absent  bool              `yaml:"absent" doc:"the application or object does not exist; within that, also: no such event"`
	Capture map[string]string `yaml:"capture" doc:"variable -> path in the object, or sync, health, revision, version of the application"`

	at scenario.Subject // of a source
}

// event is a Kubernetes event about an object.
type event struct {
	Cluster   string    `yaml:"cluster" need:"true"`
	Namespace string    `yaml:"namespace" need:"true"`
	Kind      string    `yaml:"kind" doc:"of the object"`
	Name      condition `yaml:"name" doc:"of the object"`
	Reason    string    `yaml:"reason" doc:"FailedScheduling, ScalingReplicaSet, ..."`
	Message   condition `yaml:"message"`
}

func (e *expect) checks() []check {
	if len(e.That) > 0 {
		return e.That
	}
	return []check{e.check}
}

func (e *expect) Check(c *scenario.Checker) {
	if len(e.That) > 0 && (e.Application != nil || e.Object != nil || e.Event != nil) {
		c.Fail("that", "both an expectation and a list", "move it into the list")
	}
	for i, k := range e.That {
		k.check(c, fmt.Sprintf("that[%d].", i))
	}
	if len(e.That) == 0 {
		e.check.check(c, "")
	}
	c.Step("since", e.Since)
	oneLimit(c, e.Within, e.Patience)
}

// oneLimit reports a time that is both an assertion and not.
func oneLimit(c *scenario.Checker, within, patience time.Duration) {
	if within > 0 && patience > 0 {
		c.Fail("patience", "both within and patience", "within if it must be so fast, otherwise patience")
	}
}

func (k check) check(c *scenario.Checker, in string) {
	subjects := 0
	for _, is := range []bool{k.Application != nil, k.Object != nil, k.Event != nil} {
		if is {
			subjects++
		}
	}
	if subjects != 1 {
		c.Fail(strings.TrimSuffix(in, "."), "one of application, object and event is needed", "list several under that")
		return
	}
	state := k.Sync != "" || k.Health != "" || k.Revision != "" || k.Version != "" || k.Heals != nil
	switch {
	case k.Application == nil && state:
		c.Fail(in+"object", "sync, health, revision, version and heals need an application", "")
	case k.Object == nil && len(k.Has) > 0:
		c.Fail(in+"has", "has needs an object", "")
	case k.Absent && (state || len(k.Has) > 0 || len(k.Capture) > 0):
		c.Fail(in+"absent", "absent excludes other expectations", "")
	case k.Event != nil && len(k.Capture) > 0:
		c.Fail(in+"event", "an event has nothing to capture", "")
	case k.Event != nil && k.Absent && in == "":
		c.Fail("absent", "absent events need another expectation", "list it under that, with a state reached without it")
	case k.Event != nil && k.Event.Reason == "" && k.Event.Message.op == "":
		c.Fail(in+"event", "event without a condition", "add a reason or a message")
	case k.Application != nil && !state && !k.Absent && len(k.Capture) == 0:
		c.Fail(in+"application", "application without a condition", "add sync, health, revision, version, heals or absent")
	}
	for _, at := range slices.Sorted(maps.Keys(k.Has)) {
		c.FieldPath(in+"has."+at, at)
	}
	for _, name := range slices.Sorted(maps.Keys(k.Capture)) {
		at := k.Capture[name]
		if k.Object != nil {
			c.FieldPath(in+"capture."+name, at)
		} else if !slices.Contains([]string{"sync", "health", "revision", "version"}, at) {
			c.Fail(in+"capture."+name, fmt.Sprintf("an application has no %q to capture", at), "sync, health, revision or version")
		}
	}
}

// Captures returns the variables that it sets.
func (e *expect) Captures() []string {
	var names []string
	for _, k := range e.checks() {
		names = append(names, slices.Sorted(maps.Keys(k.Capture))...)
	}
	return names
}

// Subjects returns the subjects of all checks.
func (e *expect) Subjects() []scenario.Subject {
	var list []scenario.Subject
	for _, k := range e.checks() {
		if s := k.subject(); s != (scenario.Subject{}) {
			list = append(list, s)
		}
	}
	return list
}

// Facets returns the field paths that it checks.
func (e *expect) Facets(s scenario.Subject) []string {
	for _, k := range e.checks() {
		if k.subject() == s {
			return slices.Sorted(maps.Keys(k.Has))
		}
	}
	return nil
}

func (k check) subject() scenario.Subject {
	switch {
	case k.Application != nil:
		return k.Application.Subject()
	case k.Object != nil:
		return k.Object.Subject()
	case k.Event != nil:
		return scenario.EventsIn(k.Event.Cluster, k.Event.Namespace)
	}
	return k.at
}

func (e *expect) Do(ctx context.Context, c *scenario.Call) error {
	checks := e.checks()
	view, err := c.Await(ctx, func(v scenario.View) scenario.Judgement {
		var last scenario.Judgement
		for _, k := range checks {
			last = k.judge(v)
			last.Expected += e.time()
			if !last.Met {
				return last
			}
		}
		return last
	}, scenario.Limit{Within: e.Within, Patience: cmp.Or(e.Patience, 30*time.Second), Stays: e.For, Since: e.Since})
	if err != nil {
		return err
	}
	for _, k := range checks {
		if err := k.capture(c, view); err != nil {
			return err
		}
	}
	return nil
}

func (e *expect) time() string {
	s := ""
	if e.Within > 0 {
		s = " within " + scenario.Span(e.Within)
	}
	if e.For > 0 {
		s += ", for " + scenario.Span(e.For)
	}
	return s
}

// judge judges each subject that the check is about, up to the first that does not meet it.
func (k check) judge(v scenario.View) scenario.Judgement {
	var j scenario.Judgement
	for _, s := range v.Of(k.subject()) {
		if j = k.judgeOne(s, v.State(s)); !j.Met {
			break
		}
	}
	return j
}

func (k check) judgeOne(s scenario.Subject, state scenario.State) scenario.Judgement {
	j := scenario.Judgement{Subject: s, Expected: k.expected(s)}
	switch {
	case !state.Known: // neither present nor absent
		j.Unknown, j.Seen = true, state.Unseen(s)
	case k.Application != nil:
		j.Met, j.Seen = k.meets(state.Application), shownApplication(s, state.Application)
	case k.Event != nil:
		j.Met, j.Seen = k.reported(state.Events)
	case k.Absent || state.Object == nil:
		j.Met = k.Absent == (state.Object == nil)
		j.Seen = map[bool]string{true: "not there", false: "there"}[state.Object == nil]
	default:
		return k.judgeFields(s, state.Object)
	}
	return j
}

// reported looks for the event.
func (k check) reported(events []map[string]any) (met bool, seen string) {
	i := slices.IndexFunc(events, k.Event.is)
	if i >= 0 && k.Absent {
		message, _ := events[i]["message"].(string)
		return false, "one: " + scenario.Shown(message)
	}
	return i >= 0 || k.Absent, fmt.Sprintf("%d other events", len(events))
}

func (k check) expected(s scenario.Subject) string {
	switch {
	case k.Application != nil:
		return s.String() + ": " + k.wanted()
	case k.Event != nil && k.Absent:
		return "no event" + k.Event.String()
	case k.Event != nil:
		return "an event" + k.Event.String()
	}
	return s.String() + k.objectWanted()
}

func (k check) objectWanted() string {
	switch {
	case k.Absent:
		return ": not there"
	case len(k.Has) == 0:
		return ": there"
	}
	at := slices.Min(slices.Collect(maps.Keys(k.Has)))
	return ": " + at + " " + k.Has[at].String()
}

// judgeFields reports the first unmet field.
func (k check) judgeFields(s scenario.Subject, object map[string]any) scenario.Judgement {
	j := scenario.Judgement{Subject: s, Met: true, Expected: s.String() + k.objectWanted(), Seen: "there"}
	for _, at := range slices.Sorted(maps.Keys(k.Has)) {
		got, there, shown, err := lookup(object, at)
		j.Expected, j.Seen = s.String()+": "+at+" "+k.Has[at].String(), shown
		if err != nil || !k.Has[at].holds(got, there) {
			j.Met = false
			return j
		}
	}
	return j
}

func (k check) meets(a *scenario.Application) bool {
	if k.Absent || a == nil {
		return k.Absent && a == nil
	}
	return (k.Sync == "" || scenario.SyncWord(a.Sync) == k.Sync) && (k.Health == "" || scenario.HealthWord(a.Health) == k.Health) &&
		(k.Revision == "" || a.Revision == k.Revision) && (k.Version == "" || a.Version == k.Version) && (k.Heals == nil || a.Heals == *k.Heals)
}

func (k check) wanted() string {
	if k.Absent {
		return "not there"
	}
	var words []string
	for _, w := range []string{k.Sync, k.Health, k.Version} {
		if w != "" {
			words = append(words, w)
		}
	}
	if k.Revision != "" {
		words = append(words, "at commit "+short(k.Revision))
	}
	if k.Heals != nil {
		words = append(words, map[bool]string{true: "reverts drift", false: "does not revert drift"}[*k.Heals])
	}
	return cmp.Or(strings.Join(words, ", "), "there")
}

func shownApplication(s scenario.Subject, a *scenario.Application) string {
	if a == nil {
		return s.String() + ": not there"
	}
	text := fmt.Sprintf("%s: %s, %s, %s", s, scenario.SyncWord(a.Sync), scenario.HealthWord(a.Health), cmp.Or(a.Version, "no version"))
	if a.Revision != "" {
		text += ", at commit " + short(a.Revision)
	}
	if !a.Heals {
		text += ", does not revert drift"
	}
	return text
}

func short(commit string) string { return commit[:min(7, len(commit))] }

func (k check) capture(c *scenario.Call, v scenario.View) error {
	of := v.Of(k.subject())
	if len(of) > 1 && len(k.Capture) > 0 {
		return &scenario.Unmet{Expected: k.subject().String() + ": captured", LastSeen: fmt.Sprintf("%d applications, one of which application.name must name", len(of))}
	}
	state := v.State(of[0])
	for _, name := range slices.Sorted(maps.Keys(k.Capture)) {
		var got any
		if a := state.Application; a != nil {
			got = map[string]string{"sync": scenario.SyncWord(a.Sync), "health": scenario.HealthWord(a.Health), "revision": a.Revision, "version": a.Version}[k.Capture[name]]
		} else {
			v, there, _, err := lookup(state.Object, k.Capture[name])
			if err != nil {
				return err
			}
			if !there {
				return &scenario.Unmet{Expected: k.subject().String() + ": " + k.Capture[name] + ", captured as ${" + name + "}", LastSeen: "not set"}
			}
			got = v
		}
		if err := c.Set(name, got); err != nil {
			return err
		}
	}
	return nil
}

func (e *event) String() string {
	s := ""
	if e.Reason != "" {
		s += " " + e.Reason
	}
	if e.Kind != "" {
		s += " of a " + strings.ToLower(e.Kind)
	}
	if e.Message.op != "" {
		s += ", message " + e.Message.String()
	}
	return s + fmt.Sprintf(" in namespace %s of %s", e.Namespace, e.Cluster)
}

func (e *event) is(o map[string]any) bool {
	about, _ := o["involvedObject"].(map[string]any)
	reason, _ := o["reason"].(string)
	return (e.Reason == "" || reason == e.Reason) && (e.Kind == "" || about["kind"] == e.Kind) &&
		(e.Name.op == "" || e.Name.holds(about["name"], true)) && (e.Message.op == "" || e.Message.holds(o["message"], true))
}
