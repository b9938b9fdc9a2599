package machine

import (
	"container/list"
	"iter"
)

// ordered is a map that is iterated in insertion order. During an iteration only the current entry may be deleted.
type ordered[K comparable, V any] struct {
	entries map[K]*list.Element
	order   list.List
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

func newOrdered[K comparable, V any]() *ordered[K, V] {
	return &ordered[K, V]{entries: make(map[K]*list.Element)}
}

func (o *ordered[K, V]) len() int {
	return len(o.entries)
}

func (o *ordered[K, V]) get(key K) (V, bool) {
	element, found := o.entries[key]
	if !found {
		var none V
		return none, false
	}
	return element.Value.(entry[K, V]).value, true
}

func (o *ordered[K, V]) has(key K) bool {
	_, found := o.entries[key]
	return found
}

// put sets the value; a new key goes to the end.
func (o *ordered[K, V]) put(key K, value V) {
	if element, found := o.entries[key]; found {
		element.Value = entry[K, V]{key, value}
		return
	}
	o.entries[key] = o.order.PushBack(entry[K, V]{key, value})
}

// delete reports whether the key was there.
func (o *ordered[K, V]) delete(key K) bool {
	element, found := o.entries[key]
	if found {
		o.order.Remove(element)
		delete(o.entries, key)
	}
	return found
}

func (o *ordered[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		var next *list.Element
		for element := o.order.Front(); element != nil; element = next {
			next = element.Next()
			at := element.Value.(entry[K, V])
			if !yield(at.key, at.value) {
				return
			}
		}
	}
}
