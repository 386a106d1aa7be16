package ui

// Initialized prints `lab init`.
func (u *UI) Initialized(res InitResult, next string) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	u.Print("an estate is in " + res.Estate)
	if len(res.Draft.Repositories) > 0 {
		u.draft(res.Draft)
	}
	u.Say("next: " + next)
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
	for _, at := range d.Roots {
		facts.Rows = append(facts.Rows, []string{"root", at, ""})
	}
	for _, at := range d.Beside {
		facts.Rows = append(facts.Rows, []string{"left out", at, "nothing leads to it"})
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
