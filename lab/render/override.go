package render

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/yaml"

	"homelab/lab/appset"
	"homelab/lab/argo"
)

// override merges the files in which a folder sets options of a source, such as those that Argo CD Image Updater writes.
// https://argo-cd.readthedocs.io/en/stable/user-guide/parameters/#store-overrides-in-git
func (s *Source) override() error {
	names := []string{argo.OverrideFile("")}
	if s.Application != "" {
		names = append(names, argo.OverrideFile(s.Application))
	}
	for _, name := range names {
		file := path.Join(s.Path, name)
		data, err := fs.ReadFile(s.FS, file)
		if errors.Is(err, fs.ErrNotExist) || isFolder(s.FS, file) {
			continue
		}
		var options []byte
		if err == nil {
			data, err = yaml.YAMLToJSON(data)
		}
		if err == nil {
			options, err = json.Marshal(s.Source)
		}
		if err == nil {
			data, err = jsonpatch.MergePatch(options, data)
		}
		var merged appset.Source
		for _, text := range [][]byte{options, data} { // into one another: a null removes nothing
			if err == nil {
				err = json.Unmarshal(text, &merged)
			}
		}
		if err != nil {
			return failed(file, err)
		}
		s.Helm, s.Kustomize, s.Directory, s.Plugin = merged.Helm, merged.Kustomize, merged.Directory, merged.Plugin
	}
	return nil
}
