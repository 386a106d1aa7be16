package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"helm.sh/helm/v3/pkg/chart/loader"
	helm "helm.sh/helm/v3/pkg/registry"

	"homelab/lab"
)

// Client pushes to the registry from this machine.
type Client struct {
	Address        string // "127.0.0.1:5000"
	User, Password string
}

// Kinds of content.
const (
	KindImage    = "image"
	KindChart    = "chart"
	KindArtifact = "artifact" // another kind of OCI artifact
)

// Content is what a tag names.
type Content struct {
	Repository string // "podinfo"
	Tag        string
	Digest     string
	Kind       string
	Size       int64 // bytes of its layers, compressed; 0 for images of several platforms
}

// Name returns the content's name in the lab: "registry:5000/podinfo:1".
func (c Content) Name() string { return Of(Credentials{}).Host + "/" + c.Repository + ":" + c.Tag }

// Source is an image that can be pushed; one field is set.
type Source struct {
	Archive string // file, as `docker save` writes it
	Layout  string // folder, an OCI image layout with one image or index
}

// PushImage pushes an image to "NAME" or "NAME:TAG".
func (c Client) PushImage(ctx context.Context, src Source, to string) (Content, error) {
	tag, err := c.tag(to)
	if err != nil {
		return Content{}, err
	}
	if src.Layout != "" {
		err = c.pushLayout(ctx, src.Layout, tag)
	} else {
		var image v1.Image
		if image, err = tarball.ImageFromPath(src.Archive, nil); err == nil {
			err = remote.Write(tag, image, c.options(ctx)...)
		}
	}
	if err != nil {
		return Content{}, c.explain("push "+to, err)
	}
	return c.look(ctx, tag)
}

func (c Client) pushLayout(ctx context.Context, dir string, tag name.Tag) error {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	if len(manifest.Manifests) != 1 {
		return remote.WriteIndex(tag, index, c.options(ctx)...)
	}
	if only := manifest.Manifests[0]; only.MediaType.IsIndex() {
		if index, err = index.ImageIndex(only.Digest); err != nil {
			return err
		}
		return remote.WriteIndex(tag, index, c.options(ctx)...)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		return err
	}
	return remote.Write(tag, image, c.options(ctx)...)
}

// PushChart pushes a packed chart to "FOLDER/NAME:VERSION", its own name and version; an empty folder is "charts".
func (c Client) PushChart(ctx context.Context, file, folder string) (Content, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Content{}, err
	}
	chart, err := loader.LoadArchive(bytes.NewReader(data))
	if err == nil {
		err = chart.Validate()
	}
	if err != nil {
		return Content{}, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: file + " is not a packed chart", Cure: "helm package makes one of a folder", Err: err}
	}
	// As in helm push: a tag has no "+".
	tag, err := c.tag(path.Join(cmp.Or(folder, "charts"), chart.Name()) + ":" + strings.ReplaceAll(chart.Metadata.Version, "+", "_"))
	if err != nil {
		return Content{}, err
	}
	client, err := helm.NewClient(helm.ClientOptPlainHTTP(), helm.ClientOptBasicAuth(c.User, c.Password), helm.ClientOptWriter(&bytes.Buffer{}), helm.ClientOptCredentialsFile(os.DevNull))
	if err == nil && ctx.Err() == nil {
		_, err = client.Push(data, c.Address+"/"+tag.RepositoryStr()+":"+chart.Metadata.Version, helm.PushOptStrictMode(false))
	}
	if err = errors.Join(err, ctx.Err()); err != nil {
		return Content{}, c.explain("push "+file, err)
	}
	return c.look(ctx, tag)
}

// answerLimit bounds the wait for its first answer.
const answerLimit = 5 * time.Second

// Answers returns an error unless the registry answers.
func (c Client) Answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	at, err := name.NewRegistry(c.Address, name.Insecure)
	if err == nil {
		_, err = remote.CatalogPage(at, "", 1, c.options(ctx)...)
	}
	return err
}

// List returns the registry's content, sorted.
func (c Client) List(ctx context.Context) ([]Content, error) {
	at, err := name.NewRegistry(c.Address, name.Insecure)
	if err != nil {
		return nil, err
	}
	repositories, err := remote.Catalog(ctx, at, c.options(ctx)...)
	if err != nil {
		return nil, c.explain("list", err)
	}
	var list []Content
	for _, repository := range repositories {
		tags, err := remote.List(at.Repo(repository), c.options(ctx)...)
		if status(err) == http.StatusNotFound { // all were removed
			continue
		}
		if err != nil {
			return nil, c.explain("list "+repository, err)
		}
		for _, t := range tags {
			content, err := c.look(ctx, at.Repo(repository).Tag(t))
			if status(err) == http.StatusNotFound { // meanwhile
				continue
			}
			if err != nil {
				return nil, err
			}
			list = append(list, content)
		}
	}
	slices.SortFunc(list, func(a, b Content) int {
		return cmp.Or(cmp.Compare(a.Repository, b.Repository), cmp.Compare(a.Tag, b.Tag))
	})
	return list, nil
}

// Look describes what a tag "NAME:TAG" names. A missing one is an error with code CodeNoTag.
func (c Client) Look(ctx context.Context, which string) (Content, error) {
	tag, err := c.tag(which)
	if err != nil {
		return Content{}, err
	}
	content, err := c.look(ctx, tag)
	if status(err) == http.StatusNotFound {
		err = noTag(tag)
	}
	return content, err
}

// Tag makes a tag "NAME:TAG" name what the registry has of a digest.
func (c Client) Tag(ctx context.Context, which, digest string) error {
	tag, err := c.tag(which)
	if err != nil {
		return err
	}
	got, err := remote.Get(tag.Digest(digest), c.options(ctx)...)
	if err == nil {
		err = remote.Tag(tag, got, c.options(ctx)...)
	}
	if err != nil {
		return c.explain("tag "+which, err)
	}
	return nil
}

// CodeNoTag is the code of the error for a tag that does not exist.
const CodeNoTag = "no_tag"

func noTag(tag name.Tag) error {
	return &lab.Error{Exit: lab.ExitInvalid, Code: CodeNoTag, Message: "the registry has no " + tag.RepositoryStr() + ":" + tag.TagStr(), Cure: "lab registry ls lists what it has"}
}

// look describes what a tag names.
func (c Client) look(ctx context.Context, tag name.Tag) (Content, error) {
	got, err := remote.Get(tag, c.options(ctx)...)
	if err != nil {
		return Content{}, c.explain("read "+tag.RepositoryStr(), err)
	}
	content := Content{Repository: tag.RepositoryStr(), Tag: tag.TagStr(), Digest: got.Digest.String(), Kind: KindImage}
	if got.MediaType.IsIndex() {
		return content, nil
	}
	var m v1.Manifest
	if err := json.Unmarshal(got.Manifest, &m); err != nil {
		return content, fmt.Errorf("%s: %w", tag.RepositoryStr(), err)
	}
	switch {
	case m.Config.MediaType == helm.ConfigMediaType:
		content.Kind = KindChart
	case !m.Config.MediaType.IsConfig():
		content.Kind = KindArtifact
	}
	for _, l := range m.Layers {
		content.Size += l.Size
	}
	return content, nil
}

// Remove removes a tag "NAME:TAG". What it named stays, under other tags and by its digest. A missing one is an error with code CodeNoTag.
func (c Client) Remove(ctx context.Context, which string) (Content, error) {
	tag, err := c.tag(which)
	if err != nil {
		return Content{}, err
	}
	had, err := c.look(ctx, tag)
	if err == nil {
		err = remote.Delete(tag, c.options(ctx)...)
	}
	if status(err) == http.StatusNotFound {
		return had, noTag(tag)
	}
	if err != nil {
		return had, c.explain("remove "+which, err)
	}
	return had, nil
}

// tag returns the tag of a name as users write it: "podinfo", "podinfo:1" or "registry:5000/podinfo:1".
func (c Client) tag(of string) (name.Tag, error) {
	for _, host := range []string{Of(Credentials{}).Host, c.Address} {
		of = strings.TrimPrefix(of, host+"/")
	}
	tag, err := name.NewTag(c.Address+"/"+of, name.Insecure)
	if err != nil || strings.Contains(of, "@") || !fs.ValidPath(tag.RepositoryStr()) {
		return tag, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("%q cannot be a name in a registry", of), Cure: "NAME or NAME:TAG, in lower case: team/podinfo:1.2.3"}
	}
	return tag, nil
}

func (c Client) options(ctx context.Context) []remote.Option {
	direct := http.DefaultTransport.(*http.Transport).Clone()
	direct.Proxy = nil // it is at 127.0.0.1
	return []remote.Option{remote.WithContext(ctx), remote.WithAuth(&authn.Basic{Username: c.User, Password: c.Password}), remote.WithTransport(direct), remote.WithUserAgent("lab")}
}

// status returns the HTTP status of an error, or 0.
func status(err error) int {
	var te *transport.Error
	if errors.As(err, &te) {
		return te.StatusCode
	}
	return 0
}

// explain replaces errors that users can do something about.
func (c Client) explain(what string, err error) error {
	switch status(err) {
	case http.StatusUnauthorized, http.StatusForbidden:
		return &lab.Error{Exit: lab.ExitFailed, Code: "registry", Message: "the lab's registry rejects lab's credentials", Cure: "lab up gives it those of the lab", Err: err}
	case 0:
	default:
		return fmt.Errorf("registry: %s: %w", what, err)
	}
	var known *lab.Error
	if errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("registry: %s: %w", what, err)
}
