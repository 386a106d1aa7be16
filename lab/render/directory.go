package render

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/gobwas/glob"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
)

// maxDirectory is Argo CD's limit for the manifests of a folder: reposerver.max.combined.directory.manifests.size.
const maxDirectory = 10_000_000

// skipped is the mark of files that Argo CD does not read.
var skipped = []byte(argo.SkipFile)

// extensions are those of manifests.
var extensions = []string{".yaml", ".yml", ".json", jsonnetFile}

// Takes reports whether a source of plain manifests in dir includes a file of its repository. Argo CD matches the path relative to dir.
func Takes(dir, file string, d appset.Directory) bool {
	rel, ok := strings.CutPrefix(file, strings.TrimSuffix(dir, "/")+"/")
	if dir == "." {
		rel, ok = file, true
	}
	if !ok || !d.DisableExtensionFilter && !slices.Contains(extensions, path.Ext(file)) || !d.Recurse && strings.Contains(rel, "/") {
		return false
	}
	return (d.Exclude == "" || !Globs(d.Exclude, rel)) && (d.Include == "" || Globs(d.Include, rel))
}

// Globs reports whether a pattern matches as in Argo CD: a star matches slashes, too, and an invalid pattern nothing.
func Globs(pattern, name string) bool {
	g, err := glob.Compile(pattern)
	return err == nil && g.Match(name)
}

// directory reads the manifests of a folder like findManifests of the repo-server.
func (s Source) directory() ([]Document, error) {
	options := appset.Directory{}
	if s.Directory != nil {
		options = *s.Directory
	}
	b := one(s.Budget)
	var docs []Document
	size := 0
	err := fs.WalkDir(s.FS, s.Path, func(file string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // a missing folder is reported by others
		case e.IsDir() && file != s.Path && (!options.Recurse || e.Name() == ".git"):
			return fs.SkipDir
		case e.Type() == fs.ModeSymlink && (options.DisableExtensionFilter || slices.Contains(extensions, path.Ext(file))) && leaves(s.FS, file):
			return failed(file, errors.New("is a link that leaves the repository"))
		case e.IsDir() || !Takes(s.Path, file, options) || !isFile(s.FS, file):
			return nil
		}
		data, err := b.read(s.FS, file)
		if err != nil {
			return failed(file, err)
		}
		if bytes.Contains(data, skipped) {
			return nil
		}
		var more []Document
		if path.Ext(file) == jsonnetFile {
			more, err = s.jsonnet(file, options.Jsonnet, b)
		} else if size += len(data); size > maxDirectory {
			return failed(s.Path, fmt.Errorf("more than %d MB of manifests, Argo CD's limit", maxDirectory/1_000_000))
		} else {
			more, err = manifests(file, data)
		}
		docs = append(docs, more...)
		return err
	})
	return docs, err
}

// leaves reports whether a link leads out of the repository.
func leaves(fsys fs.FS, link string) bool {
	target, err := fs.ReadLink(fsys, link)
	return err == nil && (path.IsAbs(target) || !fs.ValidPath(path.Join(path.Dir(link), target)))
}

// Parse reads the documents of a YAML or JSON file like Argo CD, which tolerates duplicate keys. With an error, it returns those before.
func Parse(file string, data []byte) ([]Document, error) {
	return documents(file, string(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))), nil)
}

// manifests reads a file of a folder. A YAML file without an object is ignored, unless it looks like one.
func manifests(file string, data []byte) ([]Document, error) {
	docs, err := Parse(file, data)
	if values := jsonValues(data); len(values) > 1 {
		docs, err = nil, nil
		for _, offset := range slices.Sorted(maps.Keys(values)) {
			more, problem := Parse(file, values[offset])
			for _, d := range more {
				move(d.Node, bytes.Count(data[:offset], []byte("\n")), nil)
			}
			docs, err = append(docs, more...), cmp.Or(err, problem)
		}
	}
	if line, glued := separated(file, data); glued != nil {
		docs, err = slices.DeleteFunc(docs, func(d Document) bool { return d.Line >= line }), cmp.Or(err, glued)
	}
	if i := slices.IndexFunc(docs, func(d Document) bool { return untyped(d.Node) }); i >= 0 {
		docs, err = docs[:i], invalid(lab.Position{File: file, Line: docs[i].Line}, "a document without kind", "")
	}
	if path.Ext(file) == ".json" {
		if !json.Valid(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))) {
			err = failed(file, errors.New("not one JSON object"))
		}
		return docs, err
	}
	for _, word := range []string{"apiVersion:", "kind:", "metadata:"} {
		if len(docs) == 0 && !bytes.Contains(data, []byte(word)) {
			return nil, nil
		}
	}
	return docs, err
}

// separated returns the first line with text after a separator, which Argo CD rejects, and the error.
func separated(file string, data []byte) (line int, err error) {
	for text := range bytes.Lines(data) {
		line++
		rest, separator := bytes.CutPrefix(text, []byte("---"))
		if rest = bytes.TrimSpace(rest); separator && len(rest) > 0 && rest[0] != '#' {
			return line, invalid(lab.Position{File: file, Line: line}, "text after the separator ---", "begin a new line")
		}
	}
	return 0, nil
}

// jsonValues returns the JSON values of a file that begins with one, each with its offset.
func jsonValues(data []byte) map[int][]byte {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return nil
	}
	values, decoder := map[int][]byte{}, json.NewDecoder(bytes.NewReader(data))
	for {
		var value json.RawMessage
		switch err := decoder.Decode(&value); {
		case errors.Is(err, io.EOF):
			return values
		case err != nil:
			return nil
		}
		values[int(decoder.InputOffset())-len(value)] = value
	}
}
