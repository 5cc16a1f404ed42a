#![cfg_attr(fuzzing, no_main)]

encke_fuzz::target!(encke_fuzz::snapshot::run);
