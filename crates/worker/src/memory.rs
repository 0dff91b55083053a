//! The worker's memory: the allocator that Rust has on wasm32 anyway, with another way to get memory for it.
//!
//! The standard one asks the browser for 64 KiB at a time. Each time the browser makes a new buffer object and may collect garbage: a storm of a
//! million clients fills a gigabyte, and half of its time went there. Here memory grows by an eighth of itself.

use dlmalloc::{Allocator, Dlmalloc};
use std::alloc::{GlobalAlloc, Layout};
use std::arch::wasm32::{memory_grow, memory_size};
use std::cell::UnsafeCell;
use std::ptr;

/// A page of WebAssembly, bytes.
const PAGE: usize = 65_536;

/// Pages by which memory grows at least, and at most where less would do: 1 to 64 MiB. An eighth of what is there lies between them, so the number of
/// growths is logarithmic and never more than an eighth too much is held.
const GROWTH: (usize, usize) = (16, 1024);

#[global_allocator]
static MEMORY: Memory = Memory(UnsafeCell::new(Dlmalloc::new_with_allocator(Pages)));

struct Pages;

// SAFETY: what is handed out is memory that was just added at the end, which nobody else has; none is ever taken back.
unsafe impl Allocator for Pages {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let least = size.div_ceil(PAGE);
        let wished = least.max((memory_size(0) / 8).clamp(GROWTH.0, GROWTH.1));
        for pages in [wished, least] {
            let before = memory_grow(0, pages);
            if before != usize::MAX {
                let start = before * PAGE;
                // No region may reach the very end of the address space.
                let length = (pages * PAGE).min(usize::MAX - start - 15);
                return (ptr::with_exposed_provenance_mut(start), length, 0);
            }
        }
        (ptr::null_mut(), 0, 0)
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        ptr::null_mut()
    }

    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }

    fn can_release_part(&self, _: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        PAGE
    }
}

struct Memory(UnsafeCell<Dlmalloc<Pages>>);

// SAFETY: a worker's module is built without atomics, so it has one thread.
#[cfg(not(target_feature = "atomics"))]
unsafe impl Sync for Memory {}

// SAFETY: every call is passed on under the contract it came with; none of them calls back into the allocator, so no two references live at a time.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        unsafe { (*self.0.get()).malloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { (*self.0.get()).free(at, layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        unsafe { (*self.0.get()).calloc(layout.size(), layout.align()) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        unsafe { (*self.0.get()).realloc(at, layout.size(), layout.align(), size) }
    }
}
