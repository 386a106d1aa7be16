package cli

import (
	"context"
	"errors"
	"maps"

	"homelab/lab"
	"homelab/lab/cluster"
	"homelab/lab/needs"
	"homelab/lab/supply"
	"homelab/lab/trust"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

// untrusted returns the access outside of the lab that the estate needs and the user has not agreed to. It only reads files.
func untrusted(ws *workspace.Workspace, est *lab.Estate) ([]trust.Thing, error) {
	if est.Dir == "" { // the built-in estate is lab's own
		return nil, nil
	}
	agreed, err := ws.Agreed()
	if err != nil {
		return nil, err
	}
	existing, err := cluster.NewExisting(ws.Dir, est, agreed.Has).Outside()
	list := append(trust.Of(est), existing...)
	trust.Sort(list)
	return agreed.Lacking(list), err
}

// agree asks the user to agree to what the estate needs outside of the lab, unless a flag does.
func (p *program) agree(ctx context.Context, ws *workspace.Workspace, est *lab.Estate, given bool) error {
	list, err := untrusted(ws, est)
	if err != nil || len(list) == 0 {
		return err
	}
	refused := &lab.Error{
		Exit: lab.ExitInvalid, Code: cluster.CodeUntrusted, Message: "the estate needs access outside of the lab, nothing was touched",
		Cure: "if you trust it: " + ws.OnEstate("lab up --trust"),
	}
	for _, t := range list {
		refused.Problems = append(refused.Problems, t.Problem())
	}
	if !given {
		yes, err := p.ui.Confirm(ctx, "the estate needs this access outside of the lab: trust it?", lines(list))
		if err != nil {
			return err
		}
		if !yes {
			return refused
		}
	}
	return workspace.Agree(est.Dir, list)
}

// lines returns things with their positions.
func lines(list []trust.Thing) []string {
	texts := make([]string, len(list))
	for i, t := range list {
		texts[i] = t.Problem().String()
	}
	return texts
}

// unavailable returns the repositories of others that do not respond. Untrusted hosts are not contacted.
func unavailable(ctx context.Context, ws *workspace.Workspace, est *lab.Estate) (map[string]error, error) {
	agreed, err := ws.Agreed()
	if err != nil {
		return nil, err
	}
	var ask []string
	out := map[string]error{}
	for _, address := range needs.Others(est) {
		if t := trust.HostOf(address); t.What != "" && est.Dir != "" && !agreed.Has(t) {
			out[address] = errors.New("its host is not contacted until the estate is trusted")
			continue
		}
		ask = append(ask, address)
	}
	maps.Copy(out, supply.Unreachable(ctx, ask))
	return out, nil
}

// agreeFolders agrees to the folders that the user named for a new estate.
func agreeFolders(dir string, repositories []lab.Repository) error {
	var list []trust.Thing
	for _, r := range repositories {
		list = append(list, trust.FolderOf(r))
	}
	return workspace.Agree(dir, list)
}

// things converts what an estate asks for.
func things(list []trust.Thing) []ui.Thing {
	var out []ui.Thing
	for _, t := range list {
		out = append(out, ui.Thing{Kind: string(t.Kind), Cluster: t.Cluster, What: t.What, Gives: t.Gives, File: t.At.File, Line: t.At.Line})
	}
	return out
}
