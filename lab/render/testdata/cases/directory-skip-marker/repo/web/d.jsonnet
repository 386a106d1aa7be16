// +argocd:skip-file-rendering
{apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: 'jsonnet'}}
