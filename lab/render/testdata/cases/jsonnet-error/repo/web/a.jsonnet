{apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: error 'no name'}}
