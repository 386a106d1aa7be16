package up_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"homelab/lab"
	"homelab/lab/cluster/clustertest"
	"homelab/lab/estate"
	"homelab/lab/forge/forgetest"
	"homelab/lab/service/servicetest"
	"homelab/lab/state"
)

// stage is an in-memory machine with one lab. Its contents outlive the processes.
type stage struct {
	t        *testing.T
	dir      *state.Dir
	files    fstest.MapFS // the working tree
	estate   *lab.Estate
	machine  *clustertest.Engine
	docker   string // id of the container engine
	clusters *clustertest.Fake
	forge    *server
	shelf    *shelf
	parts    []*servicetest.Fake // the first has a volume; see process.parts
	wanted   bool                // the estate has them
	other    *clustertest.Fake   // clusters of another lab; nil for none
	fetches  bool                // images and charts are available only after a request
	atHand   sync.Map            // images and charts requested
	loaded   sync.Map            // images in the container engine
	mu       sync.Mutex
	engines  map[string]*hubEngine // by the identity of their hub
	former   *hubEngine            // of another type; nil for none
}

var credentials = state.Credentials{ForgeUser: "lab", ForgePassword: "f", EngineUser: "admin", EnginePassword: "a", EngineHash: "h", WebhookSecret: "w"}

// newStage returns a machine without a lab. Its estate is the default one with a hub, two spokes and one addon.
func newStage(t *testing.T) *stage {
	t.Helper()
	root := tempDir(t)
	s := &stage{
		t: t, dir: &state.Dir{Lab: "demo", Path: filepath.Join(root, "state", "demo")}, machine: clustertest.NewEngine(),
		forge: &server{Fake: &forgetest.Fake{Dir: filepath.Join(root, "forge.git")}}, engines: map[string]*hubEngine{},
		parts: []*servicetest.Fake{{Name: "registry", Keeps: true}, {Name: "door"}},
	}
	s.clusters = clustertest.NewFake(s.machine, s.dir)
	s.shelf = newShelf(s)
	files, err := defaultEstate()
	must(t, err)
	s.files = maps.Clone(files)
	s.load()
	s.credentials()
	return s
}

// newStageWithParts is a machine whose estate has the optional parts.
func newStageWithParts(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	s.wanted = true
	return s
}

// tempDir returns a temporary directory, in memory if possible: runs on fakes spend most of their time on disk writes otherwise.
func tempDir(t *testing.T) string {
	t.Helper()
	if os.Getenv("TMPDIR") != "" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("/dev/shm", "lab-test")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	return dir
}

// defaultEstate returns the files of the initial estate.
var defaultEstate = sync.OnceValues(func() (fstest.MapFS, error) {
	files := fstest.MapFS{}
	top := os.DirFS(filepath.Join("..", ".."))
	for _, part := range []string{"clusters", "environments", "addons/podinfo", "addons/root.yaml"} {
		err := fs.WalkDir(top, part, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.Contains(path, "staging/") {
				return err
			}
			text, err := fs.ReadFile(top, path)
			files[path] = &fstest.MapFile{Data: text, Mode: 0o644}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"hub", "dev", "prod"} { // only podinfo
		for _, addon := range []string{"metrics-server", "identity"} {
			edit(files, lab.ClusterFile(name), "\n    "+addon+": true", "", ", "+addon+": true", "", addon+": true, ", "", addon+": true", "")
		}
	}
	return files, nil
})

// edit replaces pairs of words in a file.
func edit(files fstest.MapFS, name string, words ...string) {
	files[name] = &fstest.MapFile{Data: []byte(strings.NewReplacer(words...).Replace(string(files[name].Data))), Mode: 0o644}
}

// loads caches estates by digest: loading one takes as long as a run.
var loads sync.Map

func (s *stage) load() {
	s.t.Helper()
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		fmt.Fprintf(sum, "%s %q\n", name, s.files[name].Data)
	}
	s.forge.estate = string(sum.Sum(nil))
	once, _ := loads.LoadOrStore(s.forge.estate, sync.OnceValues(func() (*lab.Estate, error) { return estate.Load(maps.Clone(s.files), "", "demo") }))
	est, err := once.(func() (*lab.Estate, error))()
	must(s.t, err)
	mine := *est
	mine.Applications = slices.Clone(est.Applications)
	s.estate = &mine
}

// edit makes a change that affects every layer.
func (s *stage) edit() {
	s.t.Helper()
	edit(s.files, "clusters/prod/cluster.yaml", "eu-west-1", "us-east-2")
	s.load()
}

// leave removes a cluster from the estate.
func (s *stage) leave(cluster string) {
	s.t.Helper()
	maps.DeleteFunc(s.files, func(name string, _ *fstest.MapFile) bool { return strings.HasPrefix(name, "clusters/"+cluster+"/") })
	s.load()
}

// credentials saves fixed credentials: hashing a password takes longer than the rest of a case.
func (s *stage) credentials() {
	s.t.Helper()
	text, err := json.Marshal(credentials)
	must(s.t, err)
	must(s.t, s.dir.Create())
	must(s.t, os.WriteFile(filepath.Join(s.dir.Path, "credentials.json"), text, 0o600))
}

func (s *stage) hasCredentials() bool {
	_, err := os.Stat(filepath.Join(s.dir.Path, "credentials.json"))
	return err == nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
