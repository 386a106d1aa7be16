package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"homelab/lab"
)

// ConsequenceResult is `lab plan -o json`.
type ConsequenceResult struct {
	Lab       string              `json:"lab"`
	Engine    string              `json:"engine"`
	Before    List[ReadRevision]  `json:"before"`
	After     List[ReadRevision]  `json:"after"` // empty for the working tree
	Effects   List[Consequence]   `json:"effects"`
	Problems  List[RenderProblem] `json:"problems"`
	Confident bool                `json:"confident"` // nothing is unknown
}

// Consequence is what happens to an object, or to an application or cluster as a whole.
type Consequence struct {
	Action      string `json:"action"`
	Cluster     string `json:"cluster"`
	Addon       string `json:"addon"`
	Application string `json:"application"` // empty for a cluster
	Release     string `json:"release"`     // HelmRelease; empty for others
	Object      string `json:"object"`      // "Deployment web/web"; empty for an application or cluster
	Reason      string `json:"reason"`
	To          string `json:"to"`    // application or release that has it afterwards, if it moves
	Loses       string `json:"loses"` // empty for nothing
	Cure        string `json:"cure"`  // how nothing is lost; may be empty
	File        string `json:"file"`
	Line        int    `json:"line"`
}

// severe are the actions that somebody should look at, the most severe first.
var severe = []string{"delete", "recreate", "refuse", "unknown", "orphan", "stay"}

// Severe reports whether something is deleted, recreated, refused or unknown.
func (r ConsequenceResult) Severe() bool {
	return !r.Confident || slices.ContainsFunc(r.Effects, func(c Consequence) bool { i := slices.Index(severe, c.Action); return i >= 0 && i < 4 })
}

// Consequences prints `lab plan`. Equal effects in several clusters stand once.
func (u *UI) Consequences(res ConsequenceResult) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	for _, line := range ConsequenceLines(res.Effects, most) {
		u.Print(line)
	}
	for _, p := range res.Problems {
		u.Println(fmt.Sprintf("note: %s  %s", lab.Position{File: p.File, Line: p.Line}, p.Message))
	}
	if len(res.Effects) == 0 {
		u.Println("nothing changes for the engine")
		for _, r := range res.Before {
			if r.Folder != "." && r.Commit == "" && slices.Contains(res.After, r) {
				u.Println(fmt.Sprintf("not compared: changes of %s: lab plan --rev %s", r.Folder, lab.Quote(r.Folder+"=HEAD")))
			}
		}
	}
	return nil
}

// most is how many effects of one mild action are listed.
const most = 10

// ConsequenceLines describes effects: of the severe actions, objects with the same reason, and what is lost; of each other action at most limit objects.
func ConsequenceLines(effects []Consequence, limit int) []string {
	groups := consequenceGroups(effects)
	count := map[string]int{}
	for _, e := range effects {
		count[e.Action]++
	}
	var summary, lines []string
	shown := map[string]int{}
	for _, g := range groups {
		if _, seen := shown[g.Action]; !seen {
			summary = append(summary, fmt.Sprintf("%s %d", g.Action, count[g.Action]))
		}
		mild := !slices.Contains(severe, g.Action)
		if shown[g.Action] += max(len(g.objects), 1); mild && shown[g.Action] > limit {
			continue
		}
		line := fmt.Sprintf("%-9s ", g.Action)
		if g.Application == "" {
			line += "cluster " + strings.Join(g.clusters, ", ")
		} else {
			line += strings.TrimSpace(g.Application+" "+g.Release) + " in " + strings.Join(g.clusters, ", ")
		}
		if len(g.objects) > 0 {
			line += ": " + strings.Join(g.objects[:min(len(g.objects), most)], ", ")
		}
		if rest := len(g.objects) - most; rest > 0 {
			line += fmt.Sprintf(" and %d more", rest)
		}
		if g.File != "" {
			line += "  " + lab.Position{File: g.File, Line: g.Line}.String()
		}
		lines = append(lines, line)
		if mild {
			continue
		}
		if g.To != "" {
			g.Reason += ": to " + g.To
			if len(g.clusters) > 1 {
				g.Reason += " and so on"
			}
		}
		for _, more := range []string{g.Reason, prefixed("loses ", g.Loses), prefixed("cure: ", g.Cure)} {
			if more != "" {
				lines = append(lines, strings.Repeat(" ", 10)+more)
			}
		}
	}
	for _, action := range mildActions {
		if rest := shown[action] - limit; rest > 0 {
			lines = append(lines, fmt.Sprintf("%-9s %d more: lab plan -o json", action, rest))
		}
	}
	if len(summary) == 0 {
		return nil
	}
	return append([]string{strings.Join(summary, ", "), ""}, lines...)
}

// Deleted returns a line for each object that is deleted with contents that are not in Git.
func Deleted(effects []Consequence) []string {
	var lines []string
	for _, g := range consequenceGroups(effects) {
		if (g.Action == "delete" || g.Action == "recreate") && g.Loses != "" {
			lines = append(lines, fmt.Sprintf("%s in %s: %s", strings.Join(g.objects, ", "), strings.Join(g.clusters, ", "), g.Loses))
		}
	}
	return lines
}

var mildActions = []string{"restart", "rerun", "update", "create"}

// consequenceGroup is effects that are the same in several clusters and, if they are severe, on several objects.
type consequenceGroup struct {
	Consequence
	clusters, objects []string
}

func consequenceGroups(effects []Consequence) []*consequenceGroup {
	var groups []*consequenceGroup
	index := map[Consequence]*consequenceGroup{}
	add := func(key, e Consequence, merge func(*consequenceGroup)) {
		g := index[key]
		if g == nil {
			g = &consequenceGroup{Consequence: e}
			index[key] = g
			groups = append(groups, g)
		}
		merge(g)
	}
	whole := map[[2]string]int{} // effects on applications as a whole, by addon and cluster
	for _, e := range effects {
		if e.Object == "" && e.Addon != "" {
			whole[[2]string{e.Addon, e.Cluster}]++
		}
	}
	for _, e := range effects { // the same in several clusters
		if e.Object == "" && whole[[2]string{e.Addon, e.Cluster}] > 1 {
			e.Object = e.Application
		}
		e.Application = cmp.Or(e.Addon, e.Application)
		key := e
		key.Cluster, key.Cure, key.To = "", "", ""
		add(key, e, func(g *consequenceGroup) { g.clusters = append(g.clusters, e.Cluster) })
	}
	single := groups
	groups, index = nil, map[Consequence]*consequenceGroup{}
	for _, s := range single { // of one reason
		key := s.Consequence
		key.Cluster, key.Cure, key.To = strings.Join(s.clusters, " "), "", ""
		if slices.Contains(severe, s.Action) && s.Loses == "" {
			key.Object, key.File, key.Line = "", "", 0
		}
		add(key, s.Consequence, func(g *consequenceGroup) {
			g.clusters = s.clusters
			if s.Object != "" {
				g.objects = append(g.objects, s.Object)
			}
			if len(g.objects) > 1 {
				g.File = ""
			}
		})
	}
	order := slices.Concat(severe, mildActions)
	slices.SortStableFunc(groups, func(a, b *consequenceGroup) int {
		return cmp.Compare(slices.Index(order, a.Action), slices.Index(order, b.Action))
	})
	return groups
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}
