package charts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/repo"
	"sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/supply/registry"
)

const (
	maxIndex = 64 << 20

	// timeout is that of one chart, its index included.
	timeout = 2 * time.Minute
)

// Puller pulls charts into a Cache. It is not safe for concurrent use.
type Puller struct {
	cache   Cache
	options Options
	client  *http.Client
	indexes map[string]repo.IndexFile
}

// Options configure a Puller.
type Options struct {
	Mirror      string // host:port[/path] of a registry that has all charts, oci://HOST/PATH/NAME and https://HOST/PATH as MIRROR/HOST/PATH/NAME; empty for upstream
	Credentials bool   // use those of docker login for registries
}

// NewPuller returns a Puller. It makes no requests.
func (c Cache) NewPuller(o Options) *Puller {
	return &Puller{cache: c, options: o, client: &http.Client{Transport: remote.DefaultTransport}, indexes: map[string]repo.IndexFile{}}
}

// Pulled is a chart that was pulled.
type Pulled struct {
	Record
	Was string // digest of the archive that this version had before, if another
}

// Pull pulls a chart. A range stands for the newest version in it, as to the engines: https://helm.sh/docs/helm/helm_pull/
func (p *Puller) Pull(ctx context.Context, use lab.ChartUse) (Pulled, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s", timeout))
	defer cancel()
	r := Pulled{Record: Record{Repository: address(use), Name: use.Name, Wanted: use.Version, Pulled: time.Now().UTC().Truncate(time.Second)}}
	data, err := p.pull(ctx, &r.Record)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	version := ""
	if err == nil {
		version, err = versionIn(data)
	}
	if err != nil {
		return Pulled{}, fmt.Errorf("%s of %s: %w", strings.TrimSpace(use.Name+" "+use.Version), Redacted(r.Repository), err)
	}
	r.Digest = sum(data)
	as := []string{r.Wanted}
	if r.Version == "" {
		r.Version = version
	} else {
		as = append(as, r.Version)
		if before, ok := p.cache.Lookup(lab.ChartUse{Repository: r.Repository, Name: r.Name, Version: r.Version}); ok && before.Digest != r.Digest {
			r.Was = before.Digest
		}
	}
	return r, p.cache.keep(r.Record, data, as)
}

// versionIn returns the version in the Chart.yaml of an archive.
func versionIn(archive []byte) (string, error) {
	var m chart.Metadata
	files, err := Unpack(archive)
	if err == nil {
		var data []byte
		if data, err = fs.ReadFile(files, "Chart.yaml"); err == nil {
			err = yaml.Unmarshal(data, &m)
		}
	}
	if err == nil && m.Version == "" {
		err = errors.New("its Chart.yaml has no version")
	}
	if err != nil {
		return "", fmt.Errorf("its archive is not a chart: %w", err)
	}
	return m.Version, nil
}

// pull returns an archive, and sets its version unless a name or a digest stands for it.
func (p *Puller) pull(ctx context.Context, r *Record) ([]byte, error) {
	u, err := url.Parse(r.Repository)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme == "oci":
		return p.fromRegistry(ctx, u.Host+u.Path+"/"+r.Name, r)
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("lab does not pull from %s://", u.Scheme)
	case p.options.Mirror != "":
		return p.fromRegistry(ctx, u.Host+u.Path+"/"+r.Name, r)
	}
	index, err := p.index(ctx, u)
	if err != nil {
		return nil, err
	}
	var versions []string
	for _, v := range index.Entries[r.Name] {
		if v != nil && v.Metadata != nil {
			versions = append(versions, v.Version)
		}
	}
	if len(versions) == 0 {
		return nil, errors.New("index.yaml has no such chart")
	}
	var ok bool
	if r.Version, ok = Newest(r.Wanted, versions); !ok {
		return nil, noVersion(versions)
	}
	entries := index.Entries[r.Name]
	i := slices.IndexFunc(entries, func(v *repo.ChartVersion) bool { return v != nil && v.Metadata != nil && v.Version == r.Version })
	if len(entries[i].URLs) == 0 {
		return nil, errors.New("index.yaml has no address of it")
	}
	at, err := base(u).Parse(entries[i].URLs[0])
	switch {
	case err != nil:
		return nil, err
	case at.Scheme == "oci":
		ref, _, _ := strings.Cut(at.Host+at.Path, ":")
		return p.fromRegistry(ctx, ref, &Record{Wanted: r.Version})
	case at.Scheme != "https" && at.Scheme != u.Scheme:
		return nil, fmt.Errorf("index.yaml leads to %s, which is not https", at.Redacted())
	}
	data, err := registry.Get(ctx, p.client, at.String(), maxArchive)
	if err != nil {
		return nil, err
	}
	if want := strings.TrimPrefix(entries[i].Digest, "sha256:"); want != "" && "sha256:"+want != sum(data) {
		return nil, fmt.Errorf("its digest is %s where index.yaml has %s", sum(data), want)
	}
	return data, nil
}

func base(u *url.URL) *url.URL {
	b := *u
	b.Path = strings.TrimSuffix(b.Path, "/") + "/"
	return &b
}

// index reads the index of a repository once.
func (p *Puller) index(ctx context.Context, u *url.URL) (repo.IndexFile, error) {
	at := base(u).JoinPath("index.yaml").String()
	if index, ok := p.indexes[at]; ok {
		return index, nil
	}
	var index repo.IndexFile
	data, err := registry.Get(ctx, p.client, at, maxIndex)
	if err == nil {
		err = yaml.Unmarshal(data, &index)
	}
	if err != nil {
		return index, err
	}
	p.indexes[at] = index
	return index, nil
}

// fromRegistry is pull for a repository of a registry.
func (p *Puller) fromRegistry(ctx context.Context, repository string, r *Record) ([]byte, error) {
	tag, err := name.NewTag(repository + ":latest")
	if p.options.Mirror != "" {
		tag, err = registry.Mirrored(p.options.Mirror, repository+":latest")
	}
	if err != nil {
		return nil, err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithRetryBackoff(remote.Backoff{Duration: 200 * time.Millisecond, Factor: 3, Steps: 3})}
	if p.options.Credentials {
		options = append(options, remote.WithAuthFromKeychain(authn.DefaultKeychain))
	}
	ref, err := find(tag.Context(), r, options)
	if err != nil {
		return nil, err
	}
	img, err := remote.Image(ref, options...)
	if err != nil {
		return nil, err
	}
	digest, err := img.Digest()
	if err != nil {
		return nil, err
	}
	layer, err := registry.ChartLayer(img)
	if err != nil {
		return nil, err
	}
	content, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	defer content.Close()
	r.Manifest = digest.String()
	return registry.ReadAll(content, maxArchive)
}

var digests = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// find returns the manifest of a version, and sets the version.
func find(in name.Repository, r *Record, options []remote.Option) (name.Reference, error) {
	_, err := semver.NewConstraint(cmp.Or(r.Wanted, "*"))
	switch {
	case digests.MatchString(r.Wanted):
		return in.Digest(r.Wanted), nil
	case !Floating(r.Wanted):
		r.Version = r.Wanted
		return tagOf(in, r.Version)
	case err != nil: // not a range: a tag like latest
		return tagOf(in, r.Wanted)
	}
	tags, err := remote.List(in, options...)
	if err != nil {
		return nil, err
	}
	for i := range tags {
		tags[i] = strings.ReplaceAll(tags[i], "_", "+")
	}
	var ok bool
	if r.Version, ok = Newest(r.Wanted, tags); !ok {
		return nil, noVersion(tags)
	}
	return tagOf(in, r.Version)
}

// tagOf returns the tag of a version. Tags cannot contain "+".
func tagOf(in name.Repository, version string) (name.Reference, error) {
	return name.NewTag(in.Name() + ":" + strings.ReplaceAll(version, "+", "_"))
}

// Floating reports whether a version may be another one tomorrow: it is neither exact nor a digest.
func Floating(version string) bool {
	_, err := semver.StrictNewVersion(strings.TrimPrefix(version, "v"))
	return err != nil && !digests.MatchString(version)
}

// Newest returns the version that a range stands for: itself if it is one, or else the newest in it.
func Newest(wanted string, versions []string) (string, bool) {
	if slices.Contains(versions, wanted) {
		return wanted, true
	}
	in, err := semver.NewConstraint(cmp.Or(wanted, "*"))
	if err != nil {
		return "", false
	}
	best := ""
	var newest *semver.Version
	for _, text := range versions {
		if v, err := semver.NewVersion(text); err == nil && in.Check(v) && (newest == nil || v.GreaterThan(newest)) {
			best, newest = text, v
		}
	}
	return best, newest != nil
}

// noVersion is the error of a version that does not exist.
func noVersion(versions []string) error {
	newest, ok := Newest("", versions)
	if !ok {
		return errors.New("no such version")
	}
	return fmt.Errorf("no such version, the newest is %s", newest)
}

// Redacted returns an address without a password.
func Redacted(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Redacted()
	}
	return address
}
