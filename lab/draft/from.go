package draft

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing/fstest"
	"time"

	"homelab/lab"
	"homelab/lab/estate"
	"homelab/lab/estate/mount"
	"homelab/lab/fill"
	"homelab/lab/gitcommand"
	"homelab/lab/writeout"
)

// cloneDir is the estate's folder for clones.
const cloneDir = "repositories"

const cloneLimit = 10 * time.Minute

// Options are those of Write.
type Options struct {
	Name     string   // of the lab
	Dir      string   // must be missing or empty
	From     []string // folders, which are not changed, or addresses, which are cloned into the estate
	Fill     map[string]string
	Root     string                       // as in Wishes
	Ask      func(Choice) (string, error) // nil takes the first
	Progress lab.Progress
}

// Write drafts an estate. It writes all or nothing.
func Write(ctx context.Context, o Options) (*Draft, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("folder: %w", err)
	}
	staged, err := os.MkdirTemp("", "lab-init-")
	if err != nil {
		return nil, fmt.Errorf("draft an estate: %w", err)
	}
	defer os.RemoveAll(staged)
	var repositories []lab.Repository
	cloned := false
	for _, f := range o.From {
		r, err := locate(ctx, f, staged, o.Progress)
		if err != nil {
			return nil, err
		}
		cloned = cloned || strings.HasPrefix(r.Dir, staged)
		if abs, err := filepath.Abs(o.Root); err == nil && o.Root != "" { // as a path from here
			if rel, err := filepath.Rel(filepath.FromSlash(r.Dir), abs); err == nil && filepath.IsLocal(rel) {
				o.Root = filepath.ToSlash(rel)
			}
		}
		repositories = append(repositories, r)
	}
	o.Progress("reading the repositories")
	mounted, err := estate.Mount(dir, repositories)
	if err != nil {
		return nil, err
	}
	for i := range mounted {
		name, err := filed(mounted[i].Dir, dir, staged)
		if err != nil {
			return nil, err
		}
		mounted[i] = named(mounted[i], name)
	}
	d, err := o.draft(mounted)
	if err != nil {
		return nil, err
	}
	if err := d.fill(o.Fill); err != nil {
		return nil, err
	}
	if err := writeout.Estate(d.Files, dir); err != nil {
		return nil, err
	}
	err = os.WriteFile(filepath.Join(dir, ReportFile), []byte(d.Report()), filesMode)
	if cloned && err == nil {
		err = os.CopyFS(filepath.Join(dir, cloneDir), os.DirFS(filepath.Join(staged, cloneDir)))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("draft an estate: %w", err), emptied(dir))
	}
	return d, nil
}

// draft drafts until every choice was asked for: one may lead to others.
func (o Options) draft(mounted []lab.Repository) (*Draft, error) {
	wishes := Wishes{Root: o.Root, Took: map[string]string{}}
	for {
		d, err := New(o.Name, mounted, wishes)
		if err != nil || o.Ask == nil {
			return d, err
		}
		i := slices.IndexFunc(d.Choices, func(c Choice) bool { _, asked := wishes.Took[c.About]; return !asked && c.About != RootChoice })
		if i < 0 {
			return d, nil
		}
		if wishes.Took[d.Choices[i].About], err = o.Ask(d.Choices[i]); err != nil {
			return nil, err
		}
	}
}

// fill sets open values.
func (d *Draft) fill(texts map[string]string) error {
	list, err := fill.Find(d.Files)
	if err != nil {
		return err
	}
	changed, set, err := fill.Set(d.Files, list, texts)
	if err != nil {
		return err
	}
	for name, data := range changed {
		d.Files[name] = &fstest.MapFile{Data: data, Mode: filesMode}
	}
	d.Keys = slices.DeleteFunc(d.Keys, func(k Key) bool {
		return k.How == Open && slices.ContainsFunc(set, func(v fill.Value) bool { return v.Key == k.Name })
	})
	return nil
}

// emptied undoes a write to a missing or empty folder.
func emptied(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// filed returns a folder relative to the estate, as in cluster.yaml.
func filed(folder, dir, staged string) (string, error) {
	if rel, ok := strings.CutPrefix(folder, filepath.ToSlash(staged)+"/"); ok {
		return rel, nil
	}
	rel, err := filepath.Rel(dir, filepath.FromSlash(folder))
	return filepath.ToSlash(rel), err
}

// named returns a repository under another folder, which its revisions have with an @.
func named(r lab.Repository, dir string) lab.Repository {
	r.Dir = dir
	if absolute := r.Revisions; absolute != nil {
		r.Revisions = func(revision string) (*lab.Repository, error) {
			at, err := absolute(revision)
			if err == nil {
				at.Dir = dir + "@" + revision
			}
			return at, err
		}
	}
	return r
}

func locate(ctx context.Context, from, staged string, p lab.Progress) (lab.Repository, error) {
	info, err := os.Stat(from)
	switch {
	case err == nil && !info.IsDir():
		return lab.Repository{}, usage(from + " is a file")
	case err == nil:
		abs, err := filepath.Abs(from)
		if err != nil {
			return lab.Repository{}, fmt.Errorf("folder: %w", err)
		}
		return lab.Repository{URL: addressOf(ctx, abs), Dir: filepath.ToSlash(abs)}, nil
	case !strings.Contains(from, ":"):
		return lab.Repository{}, usage(fmt.Sprintf("no folder %s", from))
	}
	p("cloning " + from)
	to := filepath.Join(staged, cloneDir, path.Base(lab.RepositoryKey(from)))
	if _, err := (gitcommand.Command{Limit: cloneLimit, AsUser: true}).Run(ctx, "clone", "--quiet", "--", from, to); err != nil {
		return lab.Repository{}, &lab.Error{
			Exit: lab.ExitFailed, Code: "clone", Message: fmt.Sprintf("%s cannot be cloned: %v", from, err), Err: err, Details: []string{"nothing was written"},
			Cure: "clone it, and name the folder: lab init --from DIR NEW",
		}
	}
	return lab.Repository{URL: from, Dir: filepath.ToSlash(to)}, nil
}

func usage(message string) error {
	return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: message, Cure: "name the folder of a clone, or an address to clone: lab init --from DIR|URL NEW"}
}

// addressOf returns the origin of a clone. Without one, it is the address in its manifests, or a made-up one.
func addressOf(ctx context.Context, dir string) string {
	if clone, err := gitcommand.Find(ctx, dir); err == nil && clone != nil && filepath.Clean(clone.Top) == dir {
		if url := clone.Setting("remote.origin.url"); url != "" && !filepath.IsAbs(url) {
			return url
		}
	}
	if url := ownAddress(dir); url != "" {
		return url
	}
	return "https://git.lab.invalid/local/" + filepath.Base(dir)
}

// ownAddress returns the address for which most paths in manifests exist in a folder.
func ownAddress(dir string) string {
	mounted, err := estate.Mount(dir, []lab.Repository{{URL: "https://git.lab.invalid/local/x", Dir: "."}})
	if err != nil {
		return ""
	}
	scan, err := scanned(mounted)
	if err != nil {
		return ""
	}
	votes := map[string]int{}
	for _, doc := range scan.docs {
		for _, source := range doc.template().Spec.All() {
			written, _, _ := strings.Cut(source.Path, "{{")
			if source.Chart != "" || source.Path == "" || strings.Contains(source.RepoURL, "{{") || !mount.IsAddress(source.RepoURL) {
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(written))); err == nil {
				votes[source.RepoURL]++
			}
		}
	}
	return most(votes, "")
}

// most returns the text that counts most, the first of them; another one if none counts more than it.
func most(count map[string]int, best string) string {
	for _, text := range slices.Sorted(maps.Keys(count)) {
		if count[text] > count[best] {
			best = text
		}
	}
	return best
}
