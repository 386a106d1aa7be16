package needs

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"homelab/lab"
)

// What is left out with an unreachable repository is noted with its own reason.
func TestNotesOfDependents(t *testing.T) {
	named := func(name string) lab.Generated {
		return lab.Generated{Application: lab.Application{Name: name}, At: lab.Position{File: name + ".yaml", Line: 1}, Mounted: true}
	}
	charts, after, issuers, plain := named("charts"), named("after"), named("issuers"), named("plain")
	charts.Others = []string{"https://charts.example.com"}
	after.Needs = []string{"charts"}
	issuers.Lacks = []lab.Need{{Why: "needs kind Issuer", By: []string{"charts"}}}
	plain.Lacks = []lab.Need{{Why: "needs kind Plan", By: []string{"charts", "plain"}}}
	e := &lab.Estate{Applications: []lab.Generated{after, issuers, charts, plain}}
	Mark(e, map[string]error{"https://charts.example.com": errors.New("silent")})
	var got []string
	for _, n := range e.Notes {
		got = append(got, n.String())
	}
	want := []string{
		"charts.yaml:1: https://charts.example.com is unavailable: silent: needed by charts, which lab does not wait for",
		"after.yaml:1: after: needs charts, which is left out: lab does not wait for it",
		"issuers.yaml:1: issuers: needs kind Issuer: lab does not wait for it",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Each case has Applications on a cluster of the lab, and why they are left out when everything is settled, with their state, and "blocks" if they do.
func TestSettle(t *testing.T) {
	app := func(name string, change ...func(*lab.Generated)) lab.Generated {
		g := lab.Generated{Application: lab.Application{Name: name, Cluster: "hub"}, Mounted: true}
		for _, c := range change {
			c(&g)
		}
		return g
	}
	type change = func(*lab.Generated)
	needing := func(names ...string) change { return func(g *lab.Generated) { g.Needs = names } }
	lacking := func(n lab.Need) change {
		n.Why = "no kind"
		return func(g *lab.Generated) { g.Lacks = []lab.Need{n} }
	}
	syncing := func(folders ...string) change { return func(g *lab.Generated) { g.Syncs = folders } }
	in := func(folder string, wave int) change {
		return func(g *lab.Generated) { g.Folder, g.Wave = folder, wave }
	}
	own := func(g *lab.Generated) { g.Mounted = false }
	out := func(g *lab.Generated) { g.LeftOut = "out" }
	blocks := func(g *lab.Generated) { g.Blocks = true }
	absent := func(g *lab.Generated) { g.State = lab.Absent }
	drifts := func(g *lab.Generated) { g.State = lab.Drifts }
	for name, c := range map[string]struct {
		apps []lab.Generated
		want []string // of the Applications that were not left out before
	}{
		"nothing":                  {apps: []lab.Generated{app("a")}},
		"needs":                    {apps: []lab.Generated{app("a", needing("b", "c")), app("b"), app("c", out)}, want: []string{"a: needs c, which is left out"}},
		"needs what is unknown":    {apps: []lab.Generated{app("a", needing("b"))}},
		"needs what drifts":        {apps: []lab.Generated{app("a", needing("b")), app("b", out, drifts)}},
		"a chain":                  {apps: []lab.Generated{app("a", needing("b")), app("b", needing("c")), app("c", out)}, want: []string{"a: needs b, which is left out", "b: needs c, which is left out"}},
		"lacks":                    {apps: []lab.Generated{app("a", lacking(lab.Need{}))}, want: []string{"a: no kind"}},
		"lacks what blocks":        {apps: []lab.Generated{app("a", lacking(lab.Need{Blocks: true, State: lab.Absent}))}, want: []string{"a: no kind, blocks, absent"}},
		"the estate's own lacks":   {apps: []lab.Generated{app("a", own, lacking(lab.Need{Blocks: true, State: lab.Absent})), app("b", needing("a"))}, want: []string{"a: no kind, in doubt"}},
		"provided for its own":     {apps: []lab.Generated{app("a", own, lacking(lab.Need{By: []string{"b"}})), app("b")}},
		"provided":                 {apps: []lab.Generated{app("a", lacking(lab.Need{By: []string{"b"}})), app("b")}},
		"provided by one of two":   {apps: []lab.Generated{app("a", lacking(lab.Need{By: []string{"b", "c"}})), app("b", out), app("c")}},
		"provided by what drifts":  {apps: []lab.Generated{app("a", lacking(lab.Need{By: []string{"b"}})), app("b", out, drifts)}},
		"provided, but left out":   {apps: []lab.Generated{app("a", lacking(lab.Need{By: []string{"b"}})), app("b", out)}, want: []string{"a: no kind"}},
		"applied":                  {apps: []lab.Generated{app("a", lacking(lab.Need{Synced: []string{"b"}})), app("b")}},
		"applied, though left out": {apps: []lab.Generated{app("a", lacking(lab.Need{Synced: []string{"b"}})), app("b", out)}},
		"not applied":              {apps: []lab.Generated{app("a", lacking(lab.Need{Synced: []string{"b"}})), app("b", out, absent)}, want: []string{"a: no kind"}},
		"below":                    {apps: []lab.Generated{app("a", in("web", 0)), app("b", syncing("web"), out, absent)}, want: []string{"a: below b, which is left out, absent"}},
		"below what is synced":     {apps: []lab.Generated{app("a", in("web", 0)), app("b", syncing("web"), out)}},
		"below two":                {apps: []lab.Generated{app("a", in("web", 0)), app("b", syncing("web"), out, absent), app("c", syncing("web"))}},
		"later wave":               {apps: []lab.Generated{app("a", in("web", 2)), app("b", in("web", 1), out, blocks)}, want: []string{"a: in sync wave 2, after b, which is left out, absent"}},
		"same wave":                {apps: []lab.Generated{app("a", in("web", 1)), app("b", in("web", 1), out, blocks)}},
		"wave that goes on":        {apps: []lab.Generated{app("a", in("web", 2)), app("b", in("web", 1), out)}},
		"earliest wave":            {apps: []lab.Generated{app("a", in("web", 2)), app("b", in("web", 1), out, blocks), app("c", in("web", 0), out, blocks)}, want: []string{"a: in sync wave 2, after c, which is left out, absent"}},
		"another folder":           {apps: []lab.Generated{app("a", in("web", 2)), app("b", in("api", 1), out, blocks)}},
		"no folder":                {apps: []lab.Generated{app("a", in("", 2)), app("b", in("", 1), out, blocks)}},
		"sync of waves": {
			apps: []lab.Generated{app("a", syncing("web")), app("b", in("web", 1), out, blocks), app("c", in("web", 2))},
			want: []string{"a: its sync waits for b, which is left out, blocks", "c: in sync wave 2, after b, which is left out, absent"},
		},
		"sync of the last wave": {apps: []lab.Generated{app("a", syncing("web")), app("b", in("web", 1), out, blocks), app("c", in("web", 1))}},
	} {
		t.Run(name, func(t *testing.T) {
			hub := lab.Cluster{Name: "hub", Role: lab.RoleHub, Provider: lab.ProviderKind}
			e := &lab.Estate{Clusters: []lab.Cluster{hub}, Applications: c.apps}
			Settle(e)
			var got []string
			noted := 0
			for _, a := range e.Applications {
				why, _ := verdict(a)
				if why != "" {
					noted++
				}
				if why == "" || why == "out" {
					continue
				}
				line := a.Name + ": " + why
				if a.LeftOut == "" {
					line += ", in doubt"
				}
				if a.Blocks {
					line += ", blocks"
				}
				if a.State != "" {
					line += ", " + string(a.State)
				}
				got = append(got, line)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			names := 0
			for _, n := range e.Notes {
				who, _, _ := strings.Cut(n.Message, ": ")
				names += len(strings.Split(who, ", "))
			}
			if names != noted {
				t.Errorf("%d left out, notes %v", noted, e.Notes)
			}
		})
	}
}

// Of several Applications with an object, one is in sync, but which is unknown.
func TestShared(t *testing.T) {
	sharing := func(name, with string) lab.Generated {
		return lab.Generated{Application: lab.Application{Name: name}, Shared: []lab.Share{{Object: "Namespace web", With: with}}, Mounted: true}
	}
	for name, c := range map[string]struct {
		change func(*lab.Generated)
		want   string
	}{
		"both":     {func(*lab.Generated) {}, "shares Namespace web with b: Argo CD keeps only one of them in sync"},
		"left out": {func(g *lab.Generated) { g.LeftOut = "out" }, "shares Namespace web with b: Argo CD keeps only one of them in sync"},
		"unsynced": {func(g *lab.Generated) { Unsynced(g, "out") }, ""},
		"replaces": {func(g *lab.Generated) { g.LeftOut, g.Replaces = "out", true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, after := sharing("a", "b"), sharing("b", "a"), lab.Generated{Application: lab.Application{Name: "after"}, Needs: []string{"a"}}
			c.change(&b)
			e := &lab.Estate{Applications: []lab.Generated{a, b, after}}
			if problems := Mark(e, nil); len(problems) > 0 {
				t.Error(problems)
			}
			if got := e.Applications[0]; got.LeftOut != c.want || (got.State == lab.Drifts) != (c.want != "") {
				t.Errorf("%q, state %q", got.LeftOut, got.State)
			}
			a.Mounted = false
			e.Applications[0] = a
			if Mark(e, nil); e.Applications[0].LeftOut != "" || e.Applications[0].Doubt != c.want {
				t.Errorf("the estate's own: left out %q, doubt %q", e.Applications[0].LeftOut, e.Applications[0].Doubt)
			}
			if got := e.Applications[2].LeftOut; got != "" { // it works
				t.Errorf("after: %s", got)
			}
		})
	}
}

func TestUnavailable(t *testing.T) {
	charts, images, neither := lab.Generated{Application: lab.Application{Name: "charts"}}, lab.Generated{Application: lab.Application{Name: "images"}}, lab.Generated{Application: lab.Application{Name: "neither"}}
	charts.Others, images.Pulls = []string{"https://charts.example.com", "https://git.example.com"}, []string{"example.com/web:1", "example.com/api:1"}
	e := &lab.Estate{Applications: []lab.Generated{charts, images, neither, charts}}
	if got, want := Others(e), []string{"example.com/api:1", "example.com/web:1", "https://charts.example.com", "https://git.example.com"}; !slices.Equal(got, want) {
		t.Errorf("others %q, want %q", got, want)
	}
	silent := errors.New("silent")
	problems := Mark(e, map[string]error{"https://git.example.com": silent, "example.com/web:1": silent})
	for i, want := range []struct {
		why    string
		blocks bool
		state  lab.State
	}{{"https://git.example.com is unavailable: silent", false, lab.Absent}, {"example.com/web:1 is unavailable: silent", true, lab.Unready}, {}} {
		if a := e.Applications[i]; a.LeftOut != want.why || a.Blocks != want.blocks || a.State != want.state {
			t.Errorf("%s: %q, blocks %v, state %q", a.Name, a.LeftOut, a.Blocks, a.State)
		}
	}
	var failed *lab.Error
	if err := Refuse(&lab.Estate{}, problems); !errors.As(err, &failed) || failed.Code != "unavailable" || len(failed.Problems) != 2 || failed.Problems[0].Cure != "needed by charts, charts" {
		t.Errorf("%v of %v", err, problems)
	}
	if err := Refuse(&lab.Estate{}, nil); err != nil {
		t.Error(err)
	}
}
