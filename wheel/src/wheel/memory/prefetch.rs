/// Asks the processor to load `what` into its cache.
#[inline(always)]
pub(in crate::wheel) fn prefetch<T>(what: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: The instruction only affects the cache, regardless of the address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(what).cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = what;
}
