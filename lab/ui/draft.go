package ui

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
}

// DraftLeft is an object that Flux applies upstream, and that is left out here.
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
	Kind  string `json:"kind"` // label or annotation
	Key   string `json:"key"`
	Value string `json:"value"` // empty if it must be set
	How   string `json:"how"`   // found, made up, to be given
	At    string `json:"at"`    // FILE:LINE:COLUMN where it is read
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
		u.draft(res.Draft)
	}
	u.Println("next: " + next)
	return nil
}

func (u *UI) draft(d DraftInfo) {
	facts := Table{}
	for _, r := range d.Repositories {
		facts.Rows = append(facts.Rows, []string{"repository", r.URL, r.Folder + ", branch " + r.Branch})
	}
	for _, name := range d.Clusters {
		facts.Rows = append(facts.Rows, []string{"cluster", name, "clusters/" + name + "/cluster.yaml"})
	}
	if d.Namespace != "" {
		facts.Rows = append(facts.Rows, []string{"namespace", d.Namespace, "of the engine"})
	}
	for _, at := range d.Roots {
		facts.Rows = append(facts.Rows, []string{"root", at, ""})
	}
	for _, at := range d.Beside {
		facts.Rows = append(facts.Rows, []string{"left out", at, "nothing leads to it"})
	}
	for _, o := range d.Without {
		facts.Rows = append(facts.Rows, []string{"left out", o.At, o.Why})
	}
	u.Table(facts)
	keys := Table{Head: []string{"KEY", "VALUE", "", "READ BY"}}
	for _, k := range d.Keys {
		keys.Rows = append(keys.Rows, []string{k.Kind + " " + k.Key, k.Value, k.How, k.At})
	}
	if len(keys.Rows) > 0 {
		u.Print("")
		u.Table(keys)
	}
	addons := Table{Head: []string{"ADDON", "", "SELECTED BY"}}
	for _, a := range d.Addons {
		state := "on"
		if !a.On {
			state = "off: " + a.Why
		}
		addons.Rows = append(addons.Rows, []string{a.Addon, state, a.At})
	}
	if len(addons.Rows) > 0 {
		u.Print("")
		u.Table(addons)
	}
}
