package ui

import (
	"fmt"
	"strings"
	"time"

	"homelab/lab"
)

// Requests prints `lab git pr ls`.
func (u *UI) Requests(res RequestList, none string) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	if len(res.Requests) == 0 {
		u.Print(none)
		return nil
	}
	t := Table{}
	for _, r := range res.Requests {
		t.Rows = append(t.Rows, []string{fmt.Sprintf("#%d", r.Number), r.State, r.branches(), r.Author, r.Title})
	}
	u.Table(t)
	return nil
}

func (r Request) branches() string {
	head := r.Head
	if r.Fork != "" {
		head = r.Fork + ":" + head
	}
	return head + " -> " + r.Base
}

// Request prints `lab git pr view`.
func (u *UI) Request(res RequestView) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	r := res.Request
	state := r.State
	switch {
	case r.Draft && r.State == "open":
		state += ", a draft"
	case r.State == "merged":
		state += " as " + lab.Abbreviate(r.MergeCommit)
	}
	u.Print(clean(fmt.Sprintf("#%d %s", r.Number, r.Title)))
	u.Table(Table{Rows: [][]string{
		{"state", state}, {"branches", r.branches()}, {"commit", lab.Abbreviate(r.Commit)}, {"author", r.Author}, {"opened", r.Created.Local().Format(time.DateTime)},
	}})
	u.prose(res.Body)
	if len(res.Statuses) > 0 {
		u.Print("")
		t := Table{}
		for _, s := range res.Statuses {
			t.Rows = append(t.Rows, []string{s.State, s.Check, s.Description, s.Author})
		}
		u.Table(t)
	}
	for _, c := range res.Comments {
		u.Print("")
		u.Print(clean(c.Author) + ", " + c.Created.Local().Format(time.DateTime))
		u.prose(c.Body)
	}
	return nil
}

// prose prints what somebody wrote, indented: no line of it looks like one of lab's.
func (u *UI) prose(text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	u.Print("")
	for line := range strings.Lines(strings.TrimRight(text, "\r\n")) {
		u.Print(strings.TrimRight("  "+clean(strings.TrimRight(line, "\r\n")), " "))
	}
}

// RequestChanged prints the result of a command that changes a pull request.
func (u *UI) RequestChanged(res RequestResult, line string) error { return u.Result(res, clean(line)) }

// PromotionRequested prints `lab promote --pr`; next is the command that merges it.
func (u *UI) PromotionRequested(res PromoteRequestResult, next string) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	if res.Request.Number == 0 {
		return nil
	}
	t := Table{}
	for _, g := range res.Gates {
		t.Rows = append(t.Rows, []string{g.State, g.Check, g.Description})
	}
	u.Table(t)
	did := "pull request"
	if !res.Changed {
		did = "unchanged: pull request"
	}
	u.Print(clean(fmt.Sprintf("%s #%d %s (%s)", did, res.Request.Number, res.Request.Title, res.Request.branches())))
	u.Print("next: " + next)
	return nil
}
