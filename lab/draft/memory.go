package draft

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/estate"
	"homelab/lab/fill"
)

// Own is the folder of the repository in a draft in memory: its files are named Own/FILE, and at a revision Own@REVISION/FILE.
const Own = "repository.lab.invalid"

// Known is a cluster that a repository does not define.
type Known struct{ Name, Environment string }

// Repository returns the repository in a folder, for InMemory.
func Repository(ctx context.Context, dir string) (lab.Repository, error) {
	mounted, err := estate.Mount(dir, []lab.Repository{{URL: addressOf(ctx, dir), Dir: filepath.ToSlash(dir)}})
	if err != nil {
		return lab.Repository{}, err
	}
	return named(mounted[0], Own), nil
}

// InMemory drafts states of one repository, the newest last, and writes nothing. They differ by their files alone: what nothing in them says is the same in all, as the answers have
// it, or else as the newest state suggests.
func InMemory(name string, r lab.Repository, a Answers, states ...fs.FS) ([]*Draft, error) {
	drafts := make([]*Draft, len(states))
	last := len(states) - 1
	r.FS = states[last]
	r.Branch = cmp.Or(a.Branch, followed(r))
	draft := func(i int, wishes Wishes) (err error) {
		of := r
		of.FS = states[i]
		drafts[i], err = New(name, []lab.Repository{of}, wishes)
		return err
	}
	if err := draft(last, a.wishes); err != nil {
		return nil, err
	}
	if problems := a.unfit(drafts[last]); len(problems) > 0 {
		return nil, wrong(problems)
	}
	for i := range states[:last] {
		if err := draft(i, a.like(drafts[last])); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(drafts[i].guessed, func(c Known) bool { return !slices.Contains(drafts[last].Clusters, c.Name) }) { // the newest one does not name it any more
			a.wishes.Clusters = drafts[i].guessed
			if err := draft(last, a.wishes); err != nil {
				return nil, err
			}
			if err := draft(i, a.like(drafts[last])); err != nil {
				return nil, err
			}
		}
	}
	for i, d := range drafts {
		if err := a.fill(d, i < last); err != nil {
			return nil, err
		}
	}
	for _, d := range drafts[:last] {
		if err := d.placed(drafts[last]); err != nil {
			return nil, err
		}
	}
	return drafts, nil
}

// like returns the wishes for a state like the newest one.
func (a Answers) like(newest *Draft) Wishes {
	return Wishes{Root: a.wishes.Root, Took: a.wishes.Took, Clusters: newest.guessed, like: newest.made}
}

// placed sets open values of both drafts to the same placeholders: the newest one's where they fit, else those of the other.
func (d *Draft) placed(newest *Draft) error {
	list, err := fill.Find(d.Files)
	if err != nil {
		return err
	}
	others, err := fill.Find(newest.Files)
	if err != nil {
		return err
	}
	old, now := map[string]string{}, map[string]string{}
	for _, v := range fill.Open(list) {
		for _, o := range fill.Open(others) {
			switch {
			case o.Key != v.Key || o.Value == v.Value:
			case v.Type.Fits(o.Value):
				old[v.Key] = o.Value
			case o.Type.Fits(v.Value):
				now[v.Key] = v.Value
			}
		}
	}
	return errors.Join(d.fill(old), newest.fill(now))
}

// version matches revisions other than branches.
var version = regexp.MustCompile(`^v?[0-9]+(\.[0-9x*]+)*([-+].*)?$|^[0-9a-f]{40}$|[*^~<>= ]`)

// followed returns the branch of a repository that its Applications follow: the one that is checked out, or else the one that most name. A pull request is to be merged into it.
func followed(r lab.Repository) string {
	s, err := scanned([]lab.Repository{r})
	if err != nil {
		return r.Branch // reported when it is drafted
	}
	votes := s.flux.Branches(r.URL)
	for _, doc := range s.docs {
		for _, source := range doc.template().Spec.All() {
			revision := strings.TrimPrefix(source.TargetRevision, "refs/heads/")
			own := path.Base(lab.RepositoryKey(source.RepoURL)) == path.Base(lab.RepositoryKey(r.URL)) // also in a fork
			if own && source.Chart == "" && revision != "" && revision != "HEAD" && !strings.Contains(revision, "{{") && !version.MatchString(revision) {
				votes[revision]++
			}
		}
	}
	if votes[r.Branch] > 0 {
		return r.Branch
	}
	return most(votes, r.Branch)
}
