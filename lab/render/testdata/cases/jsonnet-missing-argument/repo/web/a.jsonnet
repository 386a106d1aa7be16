function(needed) {apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: needed}}
