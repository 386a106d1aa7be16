{new(name):: {apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: name + '-lib'}}}
