{apiVersion: 'example.com/v1', kind: 'Thing', metadata: {name: 'a'}, spec: {i: 1000000, f: 0.1 + 0.2, big: 12345678901234567890, e: 1e100, n: null, neg: -1}}
