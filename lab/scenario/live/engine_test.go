package live

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"homelab/lab/engine/argocd"
	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
)

// hub is a fake API server with Applications that can be frozen.
type hub struct {
	mu     sync.Mutex
	frozen chan struct{} // closed on goOn; nil unless frozen
}

func (h *hub) freeze() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.frozen = make(chan struct{})
}

func (h *hub) goOn() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.frozen)
	h.frozen = nil
}

const application = `{"apiVersion":"argoproj.io/v1alpha1","kind":"Application","metadata":{"name":"%[1]s-podinfo","namespace":"argocd","resourceVersion":"5",
"labels":{"cluster":"%[1]s","addon":"podinfo"}},"spec":{"destination":{"name":"%[1]s","namespace":"podinfo"}},"status":{"sync":{"status":"Synced"},"health":{"status":"Healthy"}}}`

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	frozen := h.frozen
	h.mu.Unlock()
	if frozen != nil {
		select {
		case <-frozen:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case !strings.HasSuffix(r.URL.Path, "/applications"):
		http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`, http.StatusNotFound)
	case r.URL.Query().Get("sendInitialEvents") == "true": // as a server without watch-list
		http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`, http.StatusUnprocessableEntity)
	case r.URL.Query().Get("watch") != "":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		fmt.Fprintf(w, `{"apiVersion":"argoproj.io/v1alpha1","kind":"ApplicationList","metadata":{"resourceVersion":"7"},"items":[`+application+`,`+strings.ReplaceAll(application, "%[1]s", "%[2]s")+`]}`, "dev", "prod")
	}
}

func TestEngineContract(t *testing.T) {
	h := &hub{}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	a, err := argocd.New("test", &rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	scenariotest.EngineContract(t, scenariotest.Hub{
		Engine: Engine{Hub: a, probe: 20 * time.Millisecond, answer: 2 * time.Second},
		Shut:   h.freeze, Open: h.goOn, Patience: 10 * time.Second,
		Expects: []scenario.Subject{scenario.ApplicationOf("dev", "podinfo"), scenario.ApplicationOf("prod", "podinfo")},
	})
}
