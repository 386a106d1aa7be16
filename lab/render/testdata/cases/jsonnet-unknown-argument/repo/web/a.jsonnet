function(known='a') {apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: known}}
