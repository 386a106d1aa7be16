package ui

// GenerateResult is `lab generate -o json`.
type GenerateResult struct {
	Written List[string] `json:"written"` // paths within the estate
	Removed List[string] `json:"removed"`
}

// Generated prints what `lab generate` did.
func (u *UI) Generated(res GenerateResult) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	for _, name := range res.Written {
		u.Print("written  " + name)
	}
	for _, name := range res.Removed {
		u.Print("removed  " + name)
	}
	if len(res.Written)+len(res.Removed) == 0 {
		u.Print("everything is up to date")
	}
	return nil
}
