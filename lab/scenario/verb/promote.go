package verb

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/estate"
	"homelab/lab/promote"
	"homelab/lab/scenario"
)

// promotion promotes an addon's version to a later environment.
type promotion struct {
	changing
	Addon   string        `yaml:"addon"`
	Addons  []string      `yaml:"addons" doc:"instead: several, as one: all gates must be open, and one commit has all"`
	From    string        `yaml:"from" need:"true" doc:"environment"`
	To      string        `yaml:"to" need:"true" doc:"a later environment"`
	Author  string        `yaml:"author" doc:"default 'release bot'"`
	Gate    string        `yaml:"gate" enum:"healthy,none" doc:"healthy, the default: every cluster of the earlier environment must run the version, in sync and healthy"`
	Within  time.Duration `yaml:"within" max:"10m" doc:"how fast the gate must open: a deadline"`
	Outcome string        `yaml:"outcome" enum:"promoted,refused" doc:"expected outcome; default promoted"`
	Refusal refusal       `yaml:"refusal" doc:"of outcome refused: by gate, and what the gate saw"`

	Patience time.Duration `yaml:"patience" max:"10m" doc:"without within: how long nothing may move until the gate opens; five times that is the limit; default 2m"`
}

func (p *promotion) Check(c *scenario.Checker) {
	if (p.Addon == "") == (len(p.Addons) == 0) {
		c.Fail("", "one of addon and addons is needed", "addons if several must go together")
	}
	if p.Outcome == "refused" && p.Within+p.Patience > 0 {
		c.Fail("outcome", "a refusal has no timeout", "remove within and patience")
	}
	if p.Outcome != "refused" && !p.Refusal.isZero() {
		c.Fail("refusal", "refusal needs outcome: refused", "add it")
	}
	oneLimit(c, p.Within, p.Patience)
}

// Alone returns why it is not played beside other stories.
func (*promotion) Alone() string { return "commits to Git" }

func (p *promotion) Do(ctx context.Context, c *scenario.Call) error {
	tree, err := c.Forge.Tree(ctx, scenario.Branch)
	if err != nil {
		return err
	}
	// From the forge: the story may have changed the pins.
	est, err := estate.Load(tree.FS, "", c.Estate.Name, estate.WithRepositories(c.Estate.Repositories), estate.WithEngine(c.Engines), estate.EveryEngine())
	if err != nil {
		return fmt.Errorf("the estate in the forge: %w", err)
	}
	var set plans
	for _, addon := range p.addons() {
		plan, err := promote.Plan(est, addon, p.From, p.To)
		if err != nil {
			return err
		}
		set = append(set, plan)
	}
	gate := p.gates(est, set)
	if p.Outcome == "refused" {
		return p.refused(ctx, c, set, gate)
	}
	if p.Gate != "none" {
		if _, err := c.Await(ctx, gate, scenario.Limit{Within: p.Within, Patience: cmp.Or(p.Patience, 2*time.Minute)}); err != nil {
			return err
		}
	}
	return p.promote(ctx, c, set)
}

func (p *promotion) addons() []string {
	if p.Addon != "" {
		return []string{p.Addon}
	}
	return p.Addons
}

// plans are the promotions of addons that go together.
type plans []promote.Promotion

func (s plans) words(word func(promote.Promotion) string) string {
	var list []string
	for _, plan := range s {
		list = append(list, word(plan))
	}
	return strings.Join(list, ", ")
}

// changes returns the files of all promotions, none of which may be that of two.
func (s plans) changes() (map[string]*scenario.File, error) {
	files := map[string]*scenario.File{}
	for _, plan := range s {
		for name, after := range plan.Changed() {
			if files[name] != nil {
				return nil, fmt.Errorf("%s has the versions of several addons of the promotion", name)
			}
			files[name] = &scenario.File{Content: after}
		}
	}
	return files, nil
}

// gateTimeout is how long the state of the gate may be unknown.
const gateTimeout = 30 * time.Second

// refused expects a closed gate. An unknown gate is neither open nor closed.
func (p *promotion) refused(ctx context.Context, c *scenario.Call, set plans, gate func(scenario.View) scenario.Judgement) error {
	if p.Gate != "none" {
		var seen scenario.Judgement
		_, err := c.Await(ctx, func(v scenario.View) scenario.Judgement {
			seen = gate(v)
			return scenario.Judgement{Met: !seen.Unknown, Expected: seen.Expected + ", or not", Seen: seen.Seen, Subject: seen.Subject}
		}, scenario.Limit{Patience: gateTimeout})
		if err != nil {
			return err
		}
		if !seen.Met {
			return p.Refusal.judge(c, "gate", seen.Seen)
		}
	}
	if err := p.promote(ctx, c, set); err != nil {
		return err
	}
	return &scenario.Unmet{
		Expected: fmt.Sprintf("%s is not promoted from %s to %s", set.words(func(p promote.Promotion) string { return p.Addon + " " + p.Version }), p.From, p.To), LastSeen: "it was promoted: " + set.words(promote.Promotion.Summary),
	}
}

func (p *promotion) promote(ctx context.Context, c *scenario.Call, set plans) error {
	files, err := set.changes()
	if err != nil {
		return err
	}
	if len(files) == 0 {
		c.Did("%s", set.words(promote.Promotion.Summary))
		return nil
	}
	_, err = c.Commit(ctx, scenario.Change{Branch: scenario.Branch, Author: cmp.Or(p.Author, "release bot"), Message: set.words(promote.Promotion.Message), Files: files})
	if err == nil {
		c.Did("%s", set.words(func(plan promote.Promotion) string {
			return strings.Join(append([]string{plan.Summary()}, plan.Notes...), "; ")
		}))
	}
	return err
}

// gates is open if the gate of each promotion is.
func (p *promotion) gates(est *lab.Estate, set plans) func(scenario.View) scenario.Judgement {
	return func(v scenario.View) scenario.Judgement {
		var j scenario.Judgement
		for _, plan := range set {
			if j = p.gate(est, plan.Addon, plan.Version)(v); !j.Met {
				break
			}
		}
		return j
	}
}

// gate is open if every cluster of the earlier environment runs the version.
func (p *promotion) gate(est *lab.Estate, addon, version string) func(scenario.View) scenario.Judgement {
	return func(v scenario.View) scenario.Judgement {
		j := scenario.Judgement{Expected: fmt.Sprintf("%s %s in sync and healthy in %s", addon, version, p.From)}
		any := false
		for _, cluster := range est.Clusters {
			if cluster.Environment != p.From || !cluster.Has(addon) {
				continue
			}
			any = true
			for _, j.Subject = range v.Of(scenario.ApplicationOf(cluster.Name, addon)) {
				state := v.State(j.Subject)
				if !state.Known {
					j.Unknown, j.Seen = true, state.Unseen(j.Subject)
					return j
				}
				if a := state.Application; a == nil || a.Version != version || !a.Converged() {
					j.Seen = shownApplication(j.Subject, a)
					return j
				}
			}
		}
		if j.Met = any; !any {
			j.Seen = fmt.Sprintf("no cluster of %s has %s", p.From, addon)
		}
		return j
	}
}
