package ui

// ScenarioImport is `lab scenario import -o json`.
type ScenarioImport struct {
	Name    string              `json:"name"`
	Written List[string]        `json:"written"` // within the estate
	Notes   List[RenderProblem] `json:"notes"`   // what is left out
}

// ScenarioImported prints what was written.
func (u *UI) ScenarioImported(res ScenarioImport, next string) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	for _, f := range res.Written {
		u.Print("written  " + f)
	}
	for _, n := range res.Notes {
		u.Println("note: " + n.Message)
	}
	u.Println("next: " + next)
	return nil
}
