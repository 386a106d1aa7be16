package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"homelab/lab"
	"homelab/lab/diff"
	"homelab/lab/estate"
	"homelab/lab/forge"
	"homelab/lab/forge/pulls"
	"homelab/lab/promote"
	"homelab/lab/render"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

// promoteByRequest opens a pull request that promotes addons in the forge's estate: neither the working tree nor main changes.
func (p *program) promoteByRequest(ctx context.Context, ws *workspace.Workspace, o promoteOptions) error {
	if err := ws.Ours(); err != nil {
		return err
	}
	if err := ws.HasLab(); err != nil {
		return err
	}
	l, err := withForge(ctx, ws)
	if err != nil {
		return err
	}
	files, err := l.gitea.Estate(ctx)
	if err == nil && files == nil {
		err = &lab.Error{Exit: lab.ExitFailed, Code: "no_branch", Message: "the forge has no commits yet", Cure: ws.Command("lab up")}
	}
	if err != nil {
		return err
	}
	plans, edits, est, err := planAll(ws, files, o)
	if err != nil {
		return err
	}
	res := ui.PromoteRequestResult{}
	changes := false
	for _, plan := range plans {
		changes = changes || plan.Changes()
		res.Promotions = append(res.Promotions, promoteResult(plan))
		p.ui.Promotion(promoteResult(plan), plan.Summary())
	}
	if !changes || o.dry {
		return p.ui.PromotionRequested(res, "")
	}
	res.Gates = gates(ctx, ws, est, plans)
	body, err := p.promotionBody(ctx, ws, files, edits, plans)
	if err != nil {
		return err
	}
	proposal := pulls.Proposal{Title: promotionTitle(plans), Body: body, Head: promotionBranch(o), Base: forge.Branch}
	err = ws.Locked(ctx, func(ctx context.Context) error {
		pushed, err := l.gitea.ProposeFiles(ctx, edits, proposal.Head, proposal.Title)
		if err != nil {
			return err
		}
		request, opened, err := l.gitea.OpenRequest(ctx, "", proposal, false)
		if err != nil {
			return err
		}
		res.Changed = pushed.Pushed || opened
		return l.gitea.Pulls(ctx, "", fmt.Sprintf("pull request #%d", request.Number), false, func(ctx context.Context, r *pulls.Repository) error {
			edited, err := r.Edit(ctx, request.Number, proposal.Title, proposal.Body)
			if err != nil {
				return err
			}
			if request, err = r.Get(ctx, request.Number); err != nil {
				return err
			}
			judged, err := judge(ctx, r, pushed.Commit, res.Gates)
			res.Changed, res.Request = res.Changed || edited || judged, requestResult(request)
			return err
		})
	})
	if err != nil {
		return err
	}
	return p.ui.PromotionRequested(res, ws.OnEstate(fmt.Sprintf("lab git pr merge %d", res.Request.Number)))
}

// planAll plans the promotions one after another, as several may change one file. It returns all problems.
func planAll(ws *workspace.Workspace, files fs.FS, o promoteOptions) (plans []promote.Promotion, edits map[string]forge.Edit, est *lab.Estate, err error) {
	edits = map[string]forge.Edit{}
	now := render.Overlay{FS: files, Files: map[string][]byte{}}
	var problems []error
	for _, addon := range o.addons {
		if est, err = having(ws, now).Load(estate.EveryEngine()); err != nil {
			return nil, nil, nil, err
		}
		plan, err := promote.Plan(est, addon, o.from, o.to)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		plans = append(plans, plan)
		for _, e := range plan.Edits {
			if string(e.Before) == string(e.After) {
				continue
			}
			edit, known := edits[e.File]
			if !known {
				edit.Before = e.Before
			}
			edit.After = e.After
			edits[e.File], now.Files[e.File] = edit, e.After
		}
	}
	return plans, edits, est, errors.Join(problems...)
}

// having returns the workspace with other files of its estate; mounted repositories are as on disk.
func having(ws *workspace.Workspace, files fs.FS) *workspace.Workspace {
	return ws.Having(files, func(string) (fs.FS, error) { return nil, nil })
}

// promotionBody describes what the engine will have.
func (p *program) promotionBody(ctx context.Context, ws *workspace.Workspace, files fs.FS, edits map[string]forge.Edit, plans []promote.Promotion) (string, error) {
	after := render.Overlay{FS: files, Files: map[string][]byte{}}
	for name, e := range edits {
		after.Files[name] = e.After
	}
	_, old, err := p.model(ctx, having(ws, files), origin{images: imagesFlag.Value})
	if err != nil {
		return "", err
	}
	est, apps, err := p.model(ctx, having(ws, after), origin{images: imagesFlag.Value})
	if err != nil {
		return "", err
	}
	res := compared(ws, est, diff.Compare(old, apps, nil))
	res.Before, res.After = "main", "this pull request"
	var b strings.Builder
	for _, plan := range plans {
		fmt.Fprintf(&b, "- %s\n", plan.Summary())
		for _, note := range plan.Notes {
			fmt.Fprintf(&b, "  - %s\n", note)
		}
	}
	b.WriteString("\n" + ui.DiffMarkdown(res, "lab diff"))
	return pulls.Clean(b.String()), nil
}

// gates returns what each promotion's gate says, as statuses.
func gates(ctx context.Context, ws *workspace.Workspace, est *lab.Estate, plans []promote.Promotion) ui.List[ui.RequestStatus] {
	var apps []lab.Application
	l, err := assemble(ws, parts{estate: est})
	if err == nil {
		apps, err = l.core.Applications(ctx)
	}
	var list ui.List[ui.RequestStatus]
	for _, plan := range plans {
		s := ui.RequestStatus{Check: "lab/gate/" + plan.Addon, State: string(pulls.Error), Description: "the engine does not answer"}
		if err == nil {
			verdict := plan.Gate(est, apps)
			s.State, s.Description = string(pulls.Failure), verdict.Seen
			if verdict.Open {
				s.State = string(pulls.Success)
			}
		}
		list = append(list, s)
	}
	return list
}

// judge sets the statuses of a commit that are not so yet.
func judge(ctx context.Context, r *pulls.Repository, commit string, gates []ui.RequestStatus) (changed bool, err error) {
	had, err := r.Statuses(ctx, commit)
	if err != nil {
		return false, err
	}
	is := map[string]string{}
	for _, s := range had {
		is[s.Context] = string(s.State) + s.Description
	}
	for _, g := range gates {
		if is[g.Check] == g.State+g.Description {
			continue
		}
		if err := r.SetStatus(ctx, commit, pulls.Status{Context: g.Check, State: pulls.Verdict(g.State), Description: g.Description}); err != nil {
			return changed, err
		}
		changed = true
	}
	return changed, nil
}

func promotionTitle(plans []promote.Promotion) string {
	if len(plans) == 1 {
		return plans[0].Message()
	}
	var names []string
	for _, p := range plans {
		names = append(names, p.Addon+" "+p.Version)
	}
	return fmt.Sprintf("promote %s from %s to %s", strings.Join(names, ", "), plans[0].From, plans[0].To)
}

// promotionBranch is the same for the same addons, so that a newer version goes into the request that is open.
func promotionBranch(o promoteOptions) string {
	return "promote/" + strings.Join(o.addons, "-") + "-to-" + o.to
}

// check checks the command line of lab promote.
func (o promoteOptions) check() error {
	usage := func(message, cure string) error {
		return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: message, Cure: cure}
	}
	seen := map[string]bool{}
	for _, a := range o.addons {
		if seen[a] {
			return usage("addon "+a+" is named twice", "name each once")
		}
		seen[a] = true
	}
	switch {
	case o.from == "" || o.to == "" || len(o.addons) == 0:
		return usage("lab promote takes an addon, --from and --to", "lab promote podinfo --from dev --to staging")
	case len(o.addons) > 1 && !o.request:
		return usage("several addons are promoted by a pull request", "add --pr, or promote one after another")
	case o.request && o.push:
		return usage("--pr opens a pull request instead of pushing to main", "without --push")
	}
	return nil
}
