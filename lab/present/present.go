// Package present converts results of the core and the adapters to the types of lab/ui. It prints nothing.
package present

import (
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/cluster"
	"homelab/lab/doctor"
	"homelab/lab/forge"
	"homelab/lab/promote"
	"homelab/lab/snapshot"
	"homelab/lab/supply"
	"homelab/lab/ui"
	"homelab/lab/up"
	"homelab/lab/workspace"
)

// Status converts the state of a lab, with commands to act on it.
func Status(l *up.Lab, ws *workspace.Workspace, st up.Status) ui.Status {
	res := ui.Status{
		Lab: ws.Name, Engine: string(st.Engine), Revision: st.Revision, Clusters: ui.StatusClusters(st.Clusters), Applications: st.Applications, Off: st.Off,
		OnlyInForge: Losing(st.Losing),
	}
	for _, c := range Credentials(l) {
		res.Endpoints = append(res.Endpoints, ui.Endpoint{Name: c.Service, URL: c.URL, User: c.User, PasswordBy: ws.Command("lab creds " + lab.Quote(c.Service))})
	}
	if len(st.Off) > 0 {
		res.Starts = ws.OnEstate("lab up")
	}
	res.OnlyInForge.ListedBy = ws.OnEstate("lab down --dry-run")
	return res
}

// Losing converts what only the forge has.
func Losing(o up.Losing) ui.OnlyInForge {
	res := ui.OnlyInForge{Unknown: o.Unknown, Repositories: o.Repositories, Summary: o.String()}
	for _, c := range o.Commits {
		res.Commits = append(res.Commits, ui.ForgeCommit{
			Repository: c.Repository, Branch: c.Branch, Commit: c.Hash, Author: c.Author, Time: c.When.UTC().Truncate(time.Second), Message: c.Message, Files: c.Files,
		})
	}
	for _, r := range o.Requests {
		res.PullRequests = append(res.PullRequests, ui.ForgeRequest{Repository: r.Repository, Number: r.Number, Title: r.Title, Author: r.Author})
	}
	return res
}

// Credentials returns the credentials of the engine, if it has a UI, and the forge.
func Credentials(l *up.Lab) []ui.Credential {
	var list []ui.Credential
	if l.Definition.UI {
		list = append(list, ui.Credential{Service: string(l.Definition.Type), URL: l.EngineURL(), User: l.Creds.EngineUser, Password: l.Creds.EnginePassword})
	}
	return append(list, ui.Credential{Service: "forge", URL: l.ForgeURL(), User: l.Creds.ForgeUser, Password: l.Creds.ForgePassword})
}

// Summary returns the last screen of a run with changes.
func Summary(l *up.Lab, ws *workspace.Workspace, out up.Outcome, st up.Status, stories []string) ui.Summary {
	times := map[string]time.Duration{}
	for i, s := range out.Result.Steps {
		times[out.Steps[i].ID] = time.Duration(s.Seconds * float64(time.Second))
	}
	s := ui.Summary{
		Lab: ws.Name, Longest: ui.LongestWay(out.Steps, times), Clusters: ui.StatusClusters(st.Clusters), Applications: st.Applications, Next: ws.Next(l.Estate, stories),
	}
	for _, a := range l.Estate.Addons {
		if !a.Leads {
			s.Addons = append(s.Addons, a.Name)
		}
	}
	titles := map[string]string{string(l.Definition.Type): l.Definition.Title, "forge": "forge"}
	for _, c := range Credentials(l) {
		s.Endpoints = append(s.Endpoints, ui.Entry{Name: titles[c.Service], Text: c.URL, Note: "user " + c.User + ", password: " + ws.Command("lab creds "+lab.Quote(c.Service))})
	}
	s.Endpoints = append(s.Endpoints, ui.Entry{Name: "kubectl", Text: "export KUBECONFIG=$(" + ws.Command("lab kubeconfig") + ")"})
	return s
}

// Origin briefly describes where images come from; supply.Supply.Why has the details.
func Origin(o lab.Origin) string {
	return map[lab.Origin]string{
		lab.OriginEngine: "local images", lab.OriginBundle: "images from a bundle", lab.OriginRegistry: "images from registries", lab.OriginSource: "images from source",
	}[o]
}

// Report converts the results of the machine's checks.
func Report(report doctor.Report) []ui.Row {
	symbols := map[doctor.Status]ui.Symbol{
		doctor.StatusOK: ui.SymbolOK, doctor.StatusWarn: ui.SymbolWarning, doctor.StatusFail: ui.SymbolFailed, doctor.StatusSkip: ui.SymbolWaiting,
	}
	rows := make([]ui.Row, 0, len(report.Checks))
	for _, c := range report.Checks {
		rows = append(rows, ui.Row{Symbol: symbols[c.Status], Title: c.Title, Text: c.Found, Cure: c.Cure})
	}
	return rows
}

// Undone converts what became of the machine's recorded changes.
func Undone(list []doctor.Undone) ui.DoctorUndoResult {
	var res ui.DoctorUndoResult
	for _, u := range list {
		res.Changes = append(res.Changes, ui.DoctorUndone{What: u.What, When: u.When, Undone: u.Done, Note: u.Note})
	}
	return res
}

// Bundle lists images and charts.
func Bundle(items []supply.Item) ui.BundleResult {
	var res ui.BundleResult
	for _, i := range items {
		res.Items = append(res.Items, ui.BundleItem{
			Kind: string(i.Kind), Name: i.Name, Ref: i.Ref, Digest: i.Digest, Bytes: i.Size, Origin: string(i.Origin), AtHand: i.Present,
			Version: i.Version, Check: string(i.Verdict.Check), Why: i.Verdict.Why, Modules: modules(i.Modules),
		})
	}
	return res
}

// Supply lists what lab knows of all images and charts.
func Supply() ([]ui.VersionSupply, error) {
	items, err := supply.Catalog()
	var list []ui.VersionSupply
	for _, i := range items {
		list = append(list, ui.VersionSupply{
			Kind: string(i.Kind), Name: i.Name, Version: i.Version, Ref: i.Ref, Origin: string(i.Origin), Digest: i.Digest,
			Check: string(i.Verdict.Check), Why: i.Verdict.Why, Modules: modules(i.Modules),
		})
	}
	return list, err
}

func modules(list []supply.Module) []ui.BundleModule {
	var out []ui.BundleModule
	for _, m := range list {
		out = append(out, ui.BundleModule(m))
	}
	return out
}

// Packages converts NAME=VERSION.
func Packages(list []string) []ui.BundlePackage {
	var out []ui.BundlePackage
	for _, p := range list {
		name, version, _ := strings.Cut(p, "=")
		out = append(out, ui.BundlePackage{Name: name, Version: version})
	}
	return out
}

// Snapshot converts a complete snapshot.
func Snapshot(o snapshot.Snapshot) ui.Snapshot {
	s := ui.Snapshot{Name: o.Name, Clusters: slices.Sorted(maps.Keys(o.Clusters)), Bytes: o.Bytes, Pruned: o.Pruned, Unreadable: o.Unreadable}
	if !o.Taken.IsZero() {
		s.Taken = o.Taken.Format(time.RFC3339)
	}
	return s
}

// Snapshots lists a lab's snapshots.
func Snapshots(labName string, list []snapshot.Snapshot) ui.SnapshotListResult {
	res := ui.SnapshotListResult{Lab: labName}
	for _, o := range list {
		res.Snapshots = append(res.Snapshots, Snapshot(o))
	}
	return res
}

// Kubeconfigs returns a value for KUBECONFIG and its parts.
func Kubeconfigs(labName string, files []cluster.Kubeconfig) ui.KubeconfigResult {
	info := ui.KubeconfigResult{Lab: labName}
	var paths []string
	for _, k := range files {
		info.Clusters = append(info.Clusters, ui.KubeconfigFile{Name: k.Cluster, Path: k.Path, Context: k.Context})
		paths = append(paths, k.Path)
	}
	info.Kubeconfig = strings.Join(paths, string(os.PathListSeparator))
	return info
}

// Log lists the forge's commits.
func Log(commits []forge.Commit) ui.LogResult {
	var res ui.LogResult
	for _, k := range commits {
		res.Commits = append(res.Commits, ui.LogCommit{Commit: k.Hash, Author: k.Author, Time: k.When.UTC().Truncate(time.Second), Message: k.Message})
	}
	return res
}

// Pull converts the result of a pull.
func Pull(res forge.PullResult, dry bool) ui.PullResult {
	out := ui.PullResult{Commit: res.Commit, DryRun: dry, Commits: Log(res.Commits).Commits, Committed: res.Committed, Reason: res.Reason, Next: res.Next}
	for _, f := range res.Files {
		out.Files = append(out.Files, ui.PullFile{Path: f.Path, Did: f.Did, Note: f.Note, Lines: f.Lines, Beside: f.Aside})
	}
	return out
}

// Promotion converts a planned promotion.
func Promotion(p promote.Promotion) ui.PromoteResult {
	return ui.PromoteResult{
		Addon: p.Addon, From: p.From, To: p.To, Was: p.Was, Version: p.Version, File: p.Edits[0].File, Files: slices.Sorted(maps.Keys(p.Changed())),
		Changed: p.Changes(), Diff: p.Diff(), Notes: p.Notes,
	}
}

// Down converts a removal, with notes about remaining parts.
func Down(ws *workspace.Workspace, r up.Removal) (ui.DownResult, []string) {
	var notes []string
	for _, s := range r.Stays {
		notes = append(notes, "left behind: "+s)
	}
	if len(r.Kept) > 0 {
		notes = append(notes, "kept: snapshot "+strings.Join(r.Kept, ", ")+"; "+ws.OnEstate("lab up --from "+lab.Quote(r.Kept[0]))+" restores it, "+ws.Command("lab down --snapshots")+" removes it")
	}
	return ui.DownResult{Lab: ws.Name, Removed: r.Removed, Kept: r.Kept, Stays: r.Stays}, notes
}
