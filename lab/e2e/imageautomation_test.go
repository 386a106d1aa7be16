//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab/flux"
	"homelab/lab/ui"
)

// imageObjects make Flux scan an image repository and commit the newest version.
const imageObjects = `apiVersion: image.toolkit.fluxcd.io/v1
kind: ImageRepository
metadata: {name: app, namespace: flux-system}
spec: {image: %[1]s, insecure: true, interval: 10s, secretRef: {name: forge}}
---
apiVersion: image.toolkit.fluxcd.io/v1
kind: ImagePolicy
metadata: {name: app, namespace: flux-system}
spec:
  imageRepositoryRef: {name: app}
  policy: {semver: {range: 1.x}}
---
apiVersion: image.toolkit.fluxcd.io/v1
kind: ImageUpdateAutomation
metadata: {name: app, namespace: flux-system}
spec:
  interval: 30s
  sourceRef: {kind: GitRepository, name: flux-system}
  git:
    checkout: {ref: {branch: main}}
    commit: {author: {name: image updates, email: images@example.com}, messageTemplate: newer images}
    push: {branch: main}
  update: {path: ./addons, strategy: Setters}
`

// imageUp brings up a lab whose Flux has the additional controllers.
func imageUp(t *testing.T, l *testLab) {
	l.runs("flux, componentsExtra: [image-reflector-controller, image-automation-controller]")
	l.must("up", "--fix")
	l.converged(2, 4)
	for _, controller := range []string{flux.ImageReflector, flux.ImageAutomation} {
		d, err := l.kube("hub").AppsV1().Deployments(flux.Namespace).Get(t.Context(), controller, metav1.GetOptions{})
		if err != nil || d.Status.ReadyReplicas != 1 {
			t.Errorf("%s: %+v, %v", controller, d.Status, err)
		}
	}
}

// imageCommitted pushes an image to the forge's registry: a newer one is committed, arrives in the spoke, and survives a later lab up.
func imageCommitted(t *testing.T, l *testLab) {
	creds := decode[ui.Credential](l, "creds", "forge")
	push := func(tag string) {
		t.Helper()
		ref, err := name.NewTag(strings.TrimPrefix(creds.URL, "http://")+"/"+creds.User+"/app:"+tag, name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		image, err := random.Image(100, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, image, remote.WithAuth(&authn.Basic{Username: creds.User, Password: creds.Password}), remote.WithContext(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	push("1.0.0")
	source, err := l.dynamic("hub").Resource(schema.GroupVersionResource{Group: "source.toolkit.fluxcd.io", Version: "v1", Resource: "gitrepositories"}).
		Namespace(flux.Namespace).Get(t.Context(), "flux-system", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	address, _, _ := unstructured.NestedString(source.Object, "spec", "url")
	inside, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	image := inside.Host + "/" + creds.User + "/app"
	reads := l.forgeAccount("lab-reader")
	login, err := json.Marshal(map[string]any{"auths": map[string]any{inside.Host: map[string]string{"username": "lab-reader", "password": reads}}})
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "forge"}, Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: login}}
	if _, err := l.kube("hub").CoreV1().Secrets(flux.Namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	l.write("addons/image-updates/flux/updates.yaml", fmt.Sprintf(imageObjects, image))
	l.write("addons/app/flux/configmap.yaml", fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata: {name: app, namespace: default}
data:
  image: %s:1.0.0 # {"$imagepolicy": "flux-system:app"}
`, image))
	l.edit("clusters/hub/cluster.yaml", "addons: {", "addons: {image-updates: true, ")
	l.edit("clusters/dev/cluster.yaml", "addons: {", "addons: {app: true, ")
	l.must("generate")
	l.must("up")
	push("1.1.0")
	eventually(t, 3*time.Minute, func() error {
		c, err := l.kube("dev").CoreV1().ConfigMaps("default").Get(t.Context(), "app", metav1.GetOptions{})
		if err == nil && !strings.HasSuffix(c.Data["image"], "/app:1.1.0") {
			err = fmt.Errorf("dev has %s", c.Data["image"])
		}
		return err
	})
	private(t, l, "lab-writer")
	l.must("git", "pull")
	if file := l.read("addons/app/flux/configmap.yaml"); !strings.Contains(file, ":1.1.0 # {") {
		t.Errorf("pulled:\n%s", file)
	}
	l.must("up") // waits for what else Flux reconciles with the commit
	l.checkIdle()
}
