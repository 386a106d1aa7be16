package ui

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// DraftInfo describes an estate drafted from repositories.
type DraftInfo struct {
	Repositories List[DraftRepository] `json:"repositories"`
	Clusters     List[string]          `json:"clusters"`
	Namespace    string                `json:"namespace"` // of the engine, where it is not its usual one
	Keys         List[DraftKey]        `json:"keys"`
	Addons       List[DraftAddon]      `json:"addons"`
	Roots        List[string]          `json:"roots"`  // FILE:LINE:COLUMN of what the root syncs
	Beside       List[string]          `json:"beside"` // same, of unreferenced manifests, which are left out
	Without      List[DraftLeft]       `json:"without"`
	Choices      List[DraftChoice]     `json:"choices"`
	Open         List[OpenValue]       `json:"open"`
	Applications List[PlanApplication] `json:"applications"` // that the estate generates; empty if it is invalid
	Notes        List[string]          `json:"notes"`        // of the check
	Unknown      List[PlanApplication] `json:"-"`            // ApplicationSets whose output only the running engine knows, which are in the notes
}

// DraftChoice is one of several that fit.
type DraftChoice struct {
	About string       `json:"about"`
	Took  string       `json:"took"`
	Of    List[string] `json:"of"`
	At    string       `json:"at"`
}

// DraftLeft is an object that is synced upstream, and that is left out here.
type DraftLeft struct {
	At  string `json:"at"` // FILE:LINE
	Why string `json:"why"`
}

// DraftRepository is a mounted repository.
type DraftRepository struct {
	URL    string `json:"url"`
	Folder string `json:"folder"` // relative to the estate
	Branch string `json:"branch"` // the checked-out branch, which is served
}

// DraftKey is a label or annotation that the repositories read.
type DraftKey struct {
	Kind  string `json:"kind"` // label, annotation, or what it is in
	Key   string `json:"key"`
	Value string `json:"value"`
	How   string `json:"how"` // found or open
	At    string `json:"at"`  // FILE:LINE:COLUMN where it is read
}

// DraftAddon is an addon of the repositories.
type DraftAddon struct {
	Addon string `json:"addon"`
	On    bool   `json:"on"`
	Why   string `json:"why"` // why it is off; empty if on
	At    string `json:"at"`
}

// Initialized prints `lab init`.
func (u *UI) Initialized(res InitResult, next string) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	u.Print("an estate is in " + res.Estate)
	if len(res.Draft.Repositories) > 0 {
		u.Table(Table{Rows: res.Draft.rows()})
		u.Print("all of it, with file and line: init.md")
	}
	if next != "" {
		u.Println("next: " + next)
	}
	return nil
}

// rows summarises a draft on one screen.
func (d DraftInfo) rows() [][]string {
	var rows [][]string
	add := func(what string, names []string) {
		if len(names) > 0 {
			rows = append(rows, []string{what, strconv.Itoa(len(names)), Some(names)})
		}
	}
	var repositories, off, found, open, choices []string
	for _, r := range d.Repositories {
		repositories = append(repositories, r.URL)
	}
	add("repositories", repositories)
	add("clusters", d.Clusters)
	add("roots", d.Roots)
	addons := grouped{}
	for _, a := range d.Addons {
		if a.On {
			off = append(off, a.Addon)
		} else {
			addons.add(a.Why, a.Addon)
		}
	}
	add("addons on", off)
	rows = append(rows, addons.rows("addons off")...)
	var names []string
	left, apart := grouped{}, grouped{}
	for _, a := range d.Applications {
		if a.LeftOut == "" {
			names = append(names, a.Name)
		} else {
			apart.add(a.LeftOut, a.Name)
		}
	}
	if add("applications", names); len(names) == 0 {
		rows = append(rows, []string{"applications", "0", "none"})
	}
	rows = append(rows, apart.rows("not waited for")...)
	unknown := grouped{}
	for _, s := range d.Unknown {
		unknown.add(s.LeftOut, s.Name)
	}
	rows = append(rows, unknown.rows("unknown")...)
	for _, k := range d.Keys {
		if k.How == "found" {
			found = append(found, strings.TrimSpace(k.Kind+" "+k.Key))
		}
	}
	for _, v := range d.Open {
		if !slices.Contains(open, v.Key) {
			open = append(open, v.Key)
		}
	}
	add("found", found)
	add("open", open)
	for _, c := range d.Choices {
		choices = append(choices, c.About+" is "+c.Took)
	}
	add("choices", choices)
	for _, o := range d.Without {
		left.add(o.Why, o.At)
	}
	for _, at := range d.Beside {
		left.add("nothing leads to it", at)
	}
	for _, g := range left {
		g.names = slices.Repeat([]string{""}, len(g.names)) // only their number
	}
	return append(rows, left.rows("left out")...)
}

// group has the names for which a reason is the same, but for the names in it.
type group struct {
	names []string
	why   string // of the first
	same  bool   // for all
	whole string // reason, if it is the same for all; else empty
}

// grouped has groups by what their reasons have in common.
type grouped map[string]*group

// add adds a name. What follows a colon in a reason may be different for each, such as a position.
func (g grouped) add(why, name string) {
	whole := why
	why, _, _ = strings.Cut(why, ": ")
	common := alike(why)
	of, known := g[common]
	if !known {
		of = &group{why: why, same: true, whole: whole}
		g[common] = of
	}
	if of.whole != whole {
		of.whole = ""
	}
	of.names, of.same = append(of.names, name), of.same && of.why == why
}

// alike returns a reason without the words that look like names.
func alike(why string) string {
	words := strings.Fields(why)
	for i, word := range words {
		text := strings.TrimRight(word, ",;")
		if strings.ContainsAny(text, "0123456789./:_\"{}$") || text != strings.ToLower(text) && i > 0 {
			words[i] = "…" + word[len(text):]
		}
	}
	return strings.Join(words, " ")
}

const ofReason = 120 // columns

// rows has the most frequent reasons with their names, and counts the others.
func (g grouped) rows(what string) [][]string {
	const most = 5
	var rows [][]string
	others := 0
	order := slices.SortedFunc(maps.Keys(g), func(a, b string) int { return cmp.Or(cmp.Compare(len(g[b].names), len(g[a].names)), cmp.Compare(a, b)) })
	for i, common := range order {
		of := g[common]
		why := common
		switch {
		case of.whole != "":
			why = truncate(of.whole, ofReason)
		case of.same:
			why = of.why
		}
		if of.names[0] != "" {
			why = Some(of.names) + ": " + why
		}
		if i < most {
			rows = append(rows, []string{what, strconv.Itoa(len(of.names)), why})
		} else {
			others += len(of.names)
		}
	}
	if others > 0 {
		rows = append(rows, []string{what, strconv.Itoa(others), "for " + Count(len(g)-most, "other reason")})
	}
	return rows
}
