package argocd

import (
	"slices"
	"testing"

	"homelab/lab/engine/kube/kubetest"
)

func TestTracking(t *testing.T) {
	for name, tt := range map[string]struct {
		data, label string
		own         []string
		mark        string
	}{
		"by default":     {"{}", "", []string{trackingID}, ""},
		"by annotation":  {"{application.resourceTrackingMethod: annotation}", "", []string{trackingID}, ""},
		"by both":        {"{application.resourceTrackingMethod: annotation+label}", "", []string{trackingID}, ""},
		"by label":       {"{application.resourceTrackingMethod: label}", "app.kubernetes.io/instance", nil, ""},
		"by their label": {"{application.resourceTrackingMethod: label, application.instanceLabelKey: example.com/app}", "example.com/app", nil, ""},
		"one of several": {"{installationID: lab}", "", []string{trackingID}, "argocd.argoproj.io/installation-id=lab"},
	} {
		t.Run(name, func(t *testing.T) {
			hub := kubetest.Owned(t, nil)
			hub.Create(t, "", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-cm, namespace: gitops}\ndata: "+tt.data+"\n")
			got, err := tracking(t.Context(), hub.Clients(), "gitops")
			if err != nil || got.Label != tt.label || !slices.Equal(got.Own, tt.own) || got.Mark != tt.mark {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	if _, err := tracking(t.Context(), kubetest.Owned(t, nil).Clients(), "gitops"); err == nil {
		t.Error("without settings: no error")
	}
}
