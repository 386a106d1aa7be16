package verb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"homelab/lab/scenario"
	"homelab/lab/strict"
)

// pullRequest changes a pull request on the lab's Git server, or waits until one is as expected.
type pullRequest struct {
	changes  `yaml:",inline"`
	Open     *proposed         `yaml:"open" doc:"opens one; its number is ${request}"`
	Request  numbered          `yaml:"request" doc:"number of one; default: the last that the story opened"`
	Comment  string            `yaml:"comment" doc:"text in Markdown"`
	Status   *requestStatus    `yaml:"status" doc:"sets the status of a check on its commit"`
	Merge    bool              `yaml:"merge" doc:"merges it and sets ${commit}; its branch is kept until the story ends"`
	Close    bool              `yaml:"close" doc:"closes it without a merge"`
	As       string            `yaml:"as" enum:"lab,bot" doc:"who acts; default lab; the bot may neither merge nor commit to main"`
	Has      conditions        `yaml:"has" doc:"of it: state (open, merged or closed), title, body, author, head, base, commit, merge, statuses by check (state, description, author), comments (author, body)"`
	Capture  map[string]string `yaml:"capture" doc:"variable -> path in it"`
	Within   time.Duration     `yaml:"within" max:"30m" doc:"how fast it must be as expected: a deadline"`
	Patience time.Duration     `yaml:"patience" max:"10m" doc:"without within: how long nothing may move; default 30s"`
}

// numbered is the number of a pull request, or a variable.
type numbered struct {
	n        int64
	variable bool
}

// ReadYAML reads a number.
func (i *numbered) ReadYAML(r *strict.Reader, n *yaml.Node, path string) {
	var err error
	if i.variable = r.Unfilled && strings.HasPrefix(n.Value, "${"); i.variable {
		return
	}
	if i.n, err = strconv.ParseInt(n.Value, 10, 64); err != nil || i.n < 1 || n.Kind != yaml.ScalarNode {
		r.Fail(n, path+" must be the number of a pull request", "a variable, like ${request}")
	}
}

// JSONSchema describes it for editors.
func (*numbered) JSONSchema() map[string]any {
	return map[string]any{"anyOf": []any{map[string]any{"type": "integer", "minimum": 1}, map[string]any{"type": "string", "pattern": `^\$\{`}}}
}

// proposed is a pull request to open.
type proposed struct {
	Branch string `yaml:"branch" need:"true" doc:"that the story has committed to"`
	Base   string `yaml:"base" doc:"default main, which engines follow"`
	Title  string `yaml:"title" need:"true"`
	Body   string `yaml:"body"`
}

type requestStatus struct {
	Check       string `yaml:"check" need:"true" doc:"name, like lab/diff"`
	State       string `yaml:"state" need:"true" enum:"pending,success,failure,error,warning"`
	Description string `yaml:"description"`
}

const (
	requestVariable = "request"
	lookEvery       = time.Second
)

func (q *pullRequest) acts() int {
	n := 0
	for _, does := range []bool{q.Open != nil, q.Comment != "", q.Status != nil, q.Merge, q.Close} {
		if does {
			n++
		}
	}
	return n
}

func (q *pullRequest) Check(c *scenario.Checker) {
	switch {
	case q.acts() > 1:
		c.Fail("", "several actions in one step", "one of open, comment, status, merge and close")
	case q.acts() == 0 && len(q.Has) == 0 && len(q.Capture) == 0:
		c.Fail("", "a pull request without an action or an expectation", "open, comment, status, merge, close or has")
	case q.acts() == 0 && q.Outcome == "refused":
		c.Fail("outcome", "an expectation cannot be refused", "remove outcome")
	}
	if q.Open != nil {
		if q.Request != (numbered{}) {
			c.Fail("request", "a pull request that is opened has no number yet", "remove request")
		}
		for at, name := range map[string]string{"branch": q.Open.Branch, "base": cmp.Or(q.Open.Base, scenario.Branch)} {
			if !branchName(name) {
				c.Fail("open."+at, fmt.Sprintf("invalid branch name %q", name), "a-z, 0-9, - and /")
			}
		}
	}
	for _, at := range slices.Sorted(maps.Keys(q.Has)) {
		c.FieldPath("has."+at, at)
	}
	for _, name := range slices.Sorted(maps.Keys(q.Capture)) {
		c.FieldPath("capture."+name, q.Capture[name])
	}
	oneLimit(c, q.Within, q.Patience)
}

// Captures returns the variables that it sets.
func (q *pullRequest) Captures() []string {
	names := slices.Sorted(maps.Keys(q.Capture))
	if q.Open != nil {
		names = append(names, requestVariable)
	}
	return names
}

// Changes reports whether it does more than wait.
func (q *pullRequest) Changes() bool { return q.acts() > 0 }

// Alone returns why it is not played beside other stories.
func (*pullRequest) Alone() string { return "changes pull requests" }

func (q *pullRequest) Do(ctx context.Context, c *scenario.Call) error {
	if c.Requests == nil {
		return errors.New("this lab has no pull requests")
	}
	number, err := q.number(c)
	if err != nil {
		return err
	}
	switch {
	case q.Open != nil:
		number, err = q.open(ctx, c)
	case q.Merge:
		err = q.merge(ctx, c, number)
	case q.acts() > 0:
		act := scenario.RequestAct{Comment: q.Comment, Close: q.Close, Bot: q.As == "bot"}
		if s := q.Status; s != nil {
			act.Check, act.State, act.Description = s.Check, s.State, s.Description
		}
		err = c.Requests.Act(ctx, number, act)
	}
	if err != nil {
		return err
	}
	return q.expect(ctx, c, number)
}

// number returns the number of the request that the step is about.
func (q *pullRequest) number(c *scenario.Call) (int64, error) {
	if q.Open != nil {
		return 0, nil
	}
	if q.Request.n > 0 {
		return q.Request.n, nil
	}
	last, opened := c.Memory[requestVariable].(int64)
	if !opened {
		return 0, errors.New("the story has opened no pull request: name one with request")
	}
	return last, nil
}

func requestSubject(number int64) scenario.Subject {
	return scenario.Subject{Cluster: "the forge", APIVersion: "lab/v1alpha1", Kind: "Pull request", Name: fmt.Sprintf("#%d", number)}
}

// look returns the state of a request, which is empty while the forge does not answer.
func look(c *scenario.Call, number int64) func(context.Context) map[string]any {
	return func(ctx context.Context) map[string]any {
		state, err := c.Requests.Look(ctx, number)
		if err != nil {
			return map[string]any{"error": err.Error()}
		}
		return state
	}
}

// open opens a request. From then on its states are on the timeline until the story ends, when it is closed.
func (q *pullRequest) open(ctx context.Context, c *scenario.Call) (number int64, err error) {
	c.Undo("pull request of "+q.Open.Branch, func(ctx context.Context) error {
		if number == 0 {
			return nil
		}
		return c.Requests.Act(ctx, number, scenario.RequestAct{Close: true})
	})
	number, err = c.Requests.Open(ctx, scenario.Proposal{
		Title: q.Open.Title, Body: q.Open.Body, Head: q.Open.Branch, Base: cmp.Or(q.Open.Base, scenario.Branch), Bot: q.As == "bot",
	})
	if err != nil {
		return 0, err
	}
	c.Memory[requestVariable] = number
	c.Follow(requestSubject(number), []string{"state", "statuses", "comments"}, lookEvery, look(c, number))
	c.Did("#%d: %s -> %s", number, q.Open.Branch, cmp.Or(q.Open.Base, scenario.Branch))
	return number, c.Set(requestVariable, number)
}

// merge merges a request; what that changes on its base is put back when the story ends, as after a commit.
func (q *pullRequest) merge(ctx context.Context, c *scenario.Call, number int64) error {
	before, err := c.Requests.Look(ctx, number)
	if err != nil {
		return err
	}
	head, _ := before["head"].(string)
	base, _ := before["base"].(string)
	if err := c.Merging(ctx, head, base); err != nil {
		return err
	}
	if err := c.Requests.Act(ctx, number, scenario.RequestAct{Merge: true, Bot: q.As == "bot"}); err != nil {
		return err
	}
	after, err := c.Requests.Look(ctx, number)
	if err != nil {
		return err
	}
	c.Note(scenario.Lane{Name: "git " + base}, fmt.Sprintf("merge of #%d", number))
	commit, _ := after["merge"].(string)
	c.Did("#%d merged into %s as %s", number, base, short(commit))
	return c.Set("commit", commit)
}

// expect waits until the request is as expected.
func (q *pullRequest) expect(ctx context.Context, c *scenario.Call, number int64) error {
	has, every := q.Has, lookEvery
	if len(has) == 0 {
		has, every = conditions{"number": {op: "exists", want: true}}, 0
	}
	k := check{Has: has, Capture: q.Capture, at: requestSubject(number)}
	stop := c.Poll(ctx, k.at, []string{"state", "statuses", "comments"}, every, look(c, number))
	view, err := c.Await(ctx, func(v scenario.View) scenario.Judgement {
		return k.judgeOne(k.at, v.State(k.at))
	}, scenario.Limit{Within: q.Within, Patience: cmp.Or(q.Patience, 30*time.Second)})
	stop()
	if err != nil {
		return err
	}
	if c.Done() == "" {
		c.Did("#%d: %v", number, view[k.at].Object["state"])
	}
	return k.capture(c, view)
}
